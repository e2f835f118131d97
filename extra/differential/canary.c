/* Copyright (c) 2026, the Redstart authors.

This program is free software; you can redistribute it and/or modify it under
the terms of the GNU General Public License, version 2.0, as published by the
Free Software Foundation. It is distributed without any warranty. */

/* A library that breaks the server into which it is preloaded, to see whether
the differential test notices.

CANARY_FAULTS names the faults, with commas between them:

  directory      every directory always shows the same times
  birth          every file shows the same time of birth
  temporary      a file whose name is in CANARY_TEMPORARY (names with colons
                 between them) shows the same inode and the same time of birth
  journal        nothing is added to the journal of the map, and that is not said
  return:PREFIX  each function of the program whose symbol begins with PREFIX
                 returns at once
  zero:PREFIX    the same, and returns 0

CANARY_MARK is a file to which each fault that has been put in place, or has
met something to falsify, adds its name. */

#define _GNU_SOURCE
#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#if defined(__x86_64__)
static const unsigned char RETURN[] = {0xc3};
static const unsigned char ZERO[] = {0x31, 0xc0, 0xc3};
#elif defined(__aarch64__)
static const unsigned char RETURN[] = {0xc0, 0x03, 0x5f, 0xd6};
static const unsigned char ZERO[] = {0x00, 0x00, 0x80, 0x52,
                                     0xc0, 0x03, 0x5f, 0xd6};
#else
#error "unknown machine"
#endif

/* In the past, so that it is not too young, and not whole seconds, so that it
is not too coarse to be trusted. */
#define FALSE_SEC 1600000000
#define FALSE_NSEC 123456789
#define FALSE_INODE 7

#define JOURNAL "/#innodb_tablespace_map.log"

static atomic_bool s_directory, s_birth, s_temporary, s_journal;
static atomic_bool s_has_met_directory, s_has_met_birth, s_has_met_temporary,
    s_has_met_journal;

static void mark(const char *fault) {
  const char *path = getenv("CANARY_MARK");
  if (path == NULL) return;

  const int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  if (fd < 0) return;
  char line[512];
  size_t n = strlen(fault);
  if (n > sizeof line - 1) n = sizeof line - 1;
  memcpy(line, fault, n);
  line[n] = '\n';
  /* At most a line is missing. */
  if (write(fd, line, n + 1) < 0) {
  }
  close(fd);
}

static void mark_once(atomic_bool *has_met, const char *fault) {
  if (!atomic_exchange(has_met, 1)) mark(fault);
}

static int show(long result, struct stat *st) {
  if (result == 0 && s_directory && S_ISDIR(st->st_mode)) {
    st->st_mtim.tv_sec = st->st_ctim.tv_sec = FALSE_SEC;
    st->st_mtim.tv_nsec = st->st_ctim.tv_nsec = FALSE_NSEC;
    mark_once(&s_has_met_directory, "directory");
  }
  return (int)result;
}

/* Is the last part of a path in CANARY_TEMPORARY? */
static int is_temporary(const char *path) {
  const char *names = getenv("CANARY_TEMPORARY");
  const char *slash = strrchr(path, '/');
  const char *name = slash == NULL ? path : slash + 1;
  const size_t n = strlen(name);

  while (names != NULL && n > 0) {
    if (strncmp(names, name, n) == 0 && (names[n] == ':' || names[n] == '\0'))
      return 1;
    names = strchr(names, ':');
    if (names != NULL) ++names;
  }
  return 0;
}

int stat(const char *path, struct stat *st) {
  return show(syscall(SYS_newfstatat, AT_FDCWD, path, st, 0), st);
}

int lstat(const char *path, struct stat *st) {
  return show(
      syscall(SYS_newfstatat, AT_FDCWD, path, st, AT_SYMLINK_NOFOLLOW), st);
}

int fstat(int fd, struct stat *st) {
  return show(syscall(SYS_fstat, fd, st), st);
}

int fstatat(int fd, const char *path, struct stat *st, int flags) {
  return show(syscall(SYS_newfstatat, fd, path, st, flags), st);
}

/* The same on 64-bit machines. */
int stat64(const char *path, struct stat64 *st) {
  return stat(path, (struct stat *)st);
}

int lstat64(const char *path, struct stat64 *st) {
  return lstat(path, (struct stat *)st);
}

int fstat64(int fd, struct stat64 *st) { return fstat(fd, (struct stat *)st); }

int fstatat64(int fd, const char *path, struct stat64 *st, int flags) {
  return fstatat(fd, path, (struct stat *)st, flags);
}

int statx(int fd, const char *path, int flags, unsigned mask,
          struct statx *st) {
  const long result = syscall(SYS_statx, fd, path, flags, mask, st);

  if (result != 0) return (int)result;

  if (s_directory && S_ISDIR(st->stx_mode)) {
    st->stx_mtime.tv_sec = st->stx_ctime.tv_sec = FALSE_SEC;
    st->stx_mtime.tv_nsec = st->stx_ctime.tv_nsec = FALSE_NSEC;
    mark_once(&s_has_met_directory, "directory");
  }
  const int is_temp = s_temporary && is_temporary(path);
  if (S_ISREG(st->stx_mode) && (s_birth || is_temp)) {
    st->stx_mask |= STATX_BTIME;
    st->stx_btime.tv_sec = FALSE_SEC;
    st->stx_btime.tv_nsec = FALSE_NSEC;
    if (s_birth) mark_once(&s_has_met_birth, "birth");
  }
  if (is_temp) {
    st->stx_ino = FALSE_INODE;
    mark_once(&s_has_met_temporary, "temporary");
  }
  return 0;
}

/* A new journal is written under another name. */
static int is_journal(int fd) {
  char link[64];
  char path[4096];

  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  const ssize_t n = readlink(link, path, sizeof path);
  const size_t n_name = sizeof JOURNAL - 1;
  return n >= (ssize_t)n_name && memcmp(path + n - n_name, JOURNAL, n_name) == 0;
}

ssize_t write(int fd, const void *bytes, size_t n) {
  if (s_journal && is_journal(fd)) {
    mark_once(&s_has_met_journal, "journal");
    return (ssize_t)n;
  }
  return syscall(SYS_write, fd, bytes, n);
}

static int base_of_program(struct dl_phdr_info *info, size_t size, void *base) {
  (void)size;
  *(ElfW(Addr) *)base = info->dlpi_addr;
  return 1; /* The program is the first. */
}

static int overwrite(unsigned char *at, const unsigned char *code, size_t n) {
  const size_t page = (size_t)sysconf(_SC_PAGESIZE);
  unsigned char *begin = (unsigned char *)((size_t)at / page * page);
  const size_t n_bytes = (size_t)(at - begin) + n;

  if (mprotect(begin, n_bytes, PROT_READ | PROT_WRITE | PROT_EXEC) != 0)
    return 0;
  memcpy(at, code, n);
  __builtin___clear_cache((char *)at, (char *)at + n);
  return mprotect(begin, n_bytes, PROT_READ | PROT_EXEC) == 0;
}

/* Overwrite the beginning of the functions of the program whose symbols begin
with a prefix. Returns how many. */
static int patch(const char *prefix, const unsigned char *code, size_t n) {
  int n_patched = 0;
  ElfW(Addr) base = 0;
  struct stat st;
  const int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);

  if (fd < 0) return 0;
  if (syscall(SYS_fstat, fd, &st) != 0) {
    close(fd);
    return 0;
  }
  const size_t size = (size_t)st.st_size;
  const char *file = mmap(NULL, size, PROT_READ, MAP_PRIVATE, fd, 0);
  close(fd);
  if (file == MAP_FAILED) return 0;
  (void)dl_iterate_phdr(base_of_program, &base);

  const ElfW(Ehdr) *head = (const ElfW(Ehdr) *)file;
  const ElfW(Shdr) *sections = (const ElfW(Shdr) *)(file + head->e_shoff);

  for (unsigned i = 0; i < head->e_shnum; ++i) {
    if (sections[i].sh_type != SHT_SYMTAB) continue;

    const ElfW(Sym) *symbols = (const ElfW(Sym) *)(file + sections[i].sh_offset);
    const char *names = file + sections[sections[i].sh_link].sh_offset;

    for (size_t s = 0; s < sections[i].sh_size / sizeof *symbols; ++s) {
      const ElfW(Sym) *symbol = &symbols[s];
      if (ELF64_ST_TYPE(symbol->st_info) == STT_FUNC && symbol->st_size >= n &&
          strncmp(names + symbol->st_name, prefix, strlen(prefix)) == 0) {
        n_patched += overwrite((unsigned char *)(base + symbol->st_value), code, n);
      }
    }
  }
  munmap((void *)file, size);
  return n_patched;
}

__attribute__((constructor)) static void put_in_place(void) {
  const char *faults = getenv("CANARY_FAULTS");
  char copy[4096];

  if (faults == NULL || strlen(faults) >= sizeof copy) return;
  strcpy(copy, faults);

  char *rest = NULL;
  for (char *fault = strtok_r(copy, ",", &rest); fault != NULL;
       fault = strtok_r(NULL, ",", &rest)) {
    if (strcmp(fault, "directory") == 0) {
      s_directory = 1;
    } else if (strcmp(fault, "birth") == 0) {
      s_birth = 1;
    } else if (strcmp(fault, "temporary") == 0) {
      s_temporary = 1;
    } else if (strcmp(fault, "journal") == 0) {
      s_journal = 1;
    } else if (strncmp(fault, "return:", 7) == 0) {
      if (patch(fault + 7, RETURN, sizeof RETURN) > 0) mark(fault);
    } else if (strncmp(fault, "zero:", 5) == 0) {
      if (patch(fault + 5, ZERO, sizeof ZERO) > 0) mark(fault);
    }
  }
}
