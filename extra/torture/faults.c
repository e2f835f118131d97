/* Copyright (c) 2026, the Redstart authors. GPL-2.0-only.

   Preloaded into a server: I/O that fails, or does not do what it says.

   TORTURE_DROP names kinds of files, separated by commas: a flush of such a file returns success and does nothing.

   TORTURE_LIE: a flush of a binary log flushes all of it but a hole in the middle of what has come since the last flush.

   TORTURE_FAULT is call,kind,nth,count,error: the nth call of that sort on a file of that kind fails, and the
   count - 1 that follow it, with the number of an error; error 0 is a read or write of half the bytes. When the first
   one fails, the file that TORTURE_FIRED names is made. If TORTURE_ARM names a file, calls count only once it exists.

   TORTURE_SLOW is kind,thread,msec: a positional read of such a file by threads whose names begin so takes so much longer.

   Calls: open read readv write sync allocate truncate rename unlink ring-setup ring-wait; read stands for readv, too.
   Kinds: redo binlog note data undo rebuilt map temp other any; note is that on the binary log; rebuilt is the file of the
   table rebuilt.t (rebuild.py) until the rebuild is committed, and not dropped is its flush after it was made longer; data stands for undo and rebuilt, too. Files in a directory
   redstart-mysqld-..., where a server's socket is, too, are temporary ones. */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

static struct {
  const char *drop;
  char call[16], kind[16];
  long nth, count;
  int error;
  const char *fired, *arm;
  int has_fault, lies;
  char slow_kind[16];
  char slow_thread[16];
  int slow_msec;
} s_plan;

static atomic_long s_calls;

__attribute__((constructor)) static void read_plan(void) {
  s_plan.drop = getenv("TORTURE_DROP");
  s_plan.lies = getenv("TORTURE_LIE") != NULL;
  s_plan.fired = getenv("TORTURE_FIRED");
  s_plan.arm = getenv("TORTURE_ARM");
  const char *slow = getenv("TORTURE_SLOW");
  if (slow != NULL && sscanf(slow, "%15[^,],%15[^,],%d", s_plan.slow_kind, s_plan.slow_thread, &s_plan.slow_msec) != 3) {
    fprintf(stderr, "TORTURE_SLOW: %s\n", slow);
    abort();
  }
  const char *fault = getenv("TORTURE_FAULT");
  if (fault == NULL) return;
  if (sscanf(fault, "%15[^,],%15[^,],%ld,%ld,%d", s_plan.call, s_plan.kind, &s_plan.nth, &s_plan.count,
             &s_plan.error) != 5) {
    fprintf(stderr, "TORTURE_FAULT: %s\n", fault);
    abort();
  }
  s_plan.has_fault = 1;
}

static int ends_with(const char *text, const char *end) {
  const size_t length = strlen(text), wanted = strlen(end);
  return length >= wanted && strcmp(text + length - wanted, end) == 0;
}

static int is_temp(const char *path) {
  return strstr(path, "/redstart-mysqld-") != NULL && strstr(path, "/pid") == NULL && !ends_with(path, "/s") &&
         !ends_with(path, ".lock") && !ends_with(path, "/output");
}

static const char *kind_of_path(const char *path) {
  if (is_temp(path)) return "temp";
  if (strstr(path, "#innodb_redo/") != NULL) return "redo";
  if (strstr(path, "#innodb_tablespace_map") != NULL) return "map";
  if (ends_with(path, "/binlog.startup")) return "note";
  if (strstr(path, "binlog.") != NULL) return "binlog";
  if (strstr(path, "/rebuilt/#sql-") != NULL && ends_with(path, ".ibd")) return "rebuilt";
  if (strstr(path, "undo_0") != NULL || ends_with(path, ".ibu")) return "undo";
  if (ends_with(path, ".ibd") || strstr(path, "/ibdata") != NULL || strstr(path, "undo_") != NULL ||
      ends_with(path, ".dblwr"))
    return "data";
  return "other";
}

static const char *kind_of(int fd) {
  char link[64], path[PATH_MAX];
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  const ssize_t length = readlink(link, path, sizeof path - 1);
  if (length <= 0 || path[0] != '/') return "none"; /* a socket or a pipe */
  path[length] = 0;
  return kind_of_path(path);
}

static int is_a(const char *kind, const char *wanted) {
  if (strcmp(kind, wanted) == 0) return 1;
  return strcmp(wanted, "data") == 0 && (strcmp(kind, "undo") == 0 || strcmp(kind, "rebuilt") == 0);
}

static int is_in_drop(const char *kind) {
  const char *at = strstr(s_plan.drop, kind);
  const size_t length = strlen(kind);
  return at != NULL && (at == s_plan.drop || at[-1] == ',') && (at[length] == 0 || at[length] == ',');
}

/* The file of a rebuild that this thread has made longer, if it has not flushed it since. */
static _Thread_local int s_longer = -1;

static void note_longer(int fd) {
  if (s_plan.drop != NULL && strcmp(kind_of(fd), "rebuilt") == 0) s_longer = fd;
}

static int is_dropped(int fd) {
  if (s_plan.drop == NULL) return 0;
  const char *kind = kind_of(fd);
  if (is_a(kind, "data") && is_in_drop("data")) return 1;
  if (strcmp(kind, "rebuilt") == 0 && s_longer == fd) {
    s_longer = -1;
    return 0;
  }
  return is_in_drop(kind);
}

/* Whether this call fails. */
static int fails(const char *call, const char *kind) {
  const int is_read = strcmp(call, "readv") == 0 && strcmp(s_plan.call, "read") == 0;
  if ((strcmp(call, s_plan.call) != 0 && !is_read) || strcmp(kind, "none") == 0) return 0;
  if (strcmp(s_plan.kind, "any") != 0 && !is_a(kind, s_plan.kind)) return 0;
  if (s_plan.arm != NULL && access(s_plan.arm, F_OK) != 0) return 0;
  const long number = atomic_fetch_add(&s_calls, 1) + 1;
  if (number < s_plan.nth || number >= s_plan.nth + s_plan.count) return 0;
  if (number == s_plan.nth && s_plan.fired != NULL)
    close((int)syscall(SYS_openat, AT_FDCWD, s_plan.fired, O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
  errno = s_plan.error;
  return 1;
}

static int fails_fd(const char *call, int fd) { return s_plan.has_fault && fails(call, kind_of(fd)); }
static int fails_path(const char *call, const char *path) {
  return s_plan.has_fault && fails(call, kind_of_path(path));
}

#define MAX_HOLES 8
#define HOLE_BYTES 16384
#define HOLE_LEAST_BYTES 65536
#define PAGE_BYTES 4096

/* A flush that lies; true if this is one. What is in the holes is zeros while the file is flushed, and then what it
   was, in the page cache alone. */
static int is_lie(int fd) {
  static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
  static char kept[MAX_HOLES][HOLE_BYTES], zeros[HOLE_BYTES];
  static off_t holes[MAX_HOLES], flushed;
  static int n_holes;
  static ino_t file;
  struct stat status;
  char link[64];
  if (!s_plan.lies || strcmp(kind_of(fd), "binlog") != 0 || fstat(fd, &status) != 0) return 0;
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  /* The server's own descriptor appends. */
  const int own = open(link, O_RDWR | O_CLOEXEC);
  if (own < 0) return 0;
  pthread_mutex_lock(&mutex);
  if (status.st_ino != file) flushed = n_holes = 0;
  file = status.st_ino;
  if (status.st_size - flushed >= HOLE_LEAST_BYTES && n_holes < MAX_HOLES)
    holes[n_holes++] = (flushed + status.st_size) / 2 / PAGE_BYTES * PAGE_BYTES;
  flushed = status.st_size;
  for (int i = 0; i < n_holes; ++i)
    if (pread(own, kept[i], HOLE_BYTES, holes[i]) != HOLE_BYTES || pwrite(own, zeros, HOLE_BYTES, holes[i]) != HOLE_BYTES)
      abort();
  if (syscall(SYS_fdatasync, own) != 0) abort();
  for (int i = 0; i < n_holes; ++i)
    if (pwrite(own, kept[i], HOLE_BYTES, holes[i]) != HOLE_BYTES) abort();
  pthread_mutex_unlock(&mutex);
  close(own);
  return 1;
}

#define REAL(name)                     \
  static __typeof__(name) *real;       \
  if (real == NULL) real = (__typeof__(name) *)dlsym(RTLD_NEXT, #name)

int fsync(int fd) {
  REAL(fsync);
  if (is_dropped(fd) || is_lie(fd)) return 0;
  return fails_fd("sync", fd) ? -1 : real(fd);
}

int fdatasync(int fd) {
  REAL(fdatasync);
  if (is_dropped(fd) || is_lie(fd)) return 0;
  return fails_fd("sync", fd) ? -1 : real(fd);
}

static void slow_down(int fd) {
  char name[16];
  if (s_plan.slow_msec == 0 || prctl(PR_GET_NAME, name) != 0 ||
      strncmp(name, s_plan.slow_thread, strlen(s_plan.slow_thread)) != 0 || !is_a(kind_of(fd), s_plan.slow_kind))
    return;
  const struct timespec time = {s_plan.slow_msec / 1000, s_plan.slow_msec % 1000 * 1000000L};
  nanosleep(&time, NULL);
}

/* Half of the bytes if the plan says so; -1 with errno otherwise. */
#define TRANSFER(name, call, arguments, whole, half)          \
  ssize_t name arguments {                                    \
    REAL(name);                         \
    if (!fails_fd(call, fd)) return real whole;               \
    if (s_plan.error != 0 || bytes < 2) return -1;            \
    return real half;                                         \
  }

TRANSFER(read, "read", (int fd, void *to, size_t bytes), (fd, to, bytes), (fd, to, bytes / 2))
TRANSFER(write, "write", (int fd, const void *from, size_t bytes), (fd, from, bytes), (fd, from, bytes / 2))
TRANSFER(pwrite64, "write", (int fd, const void *from, size_t bytes, off_t at), (fd, from, bytes, at),
         (fd, from, bytes / 2, at))

ssize_t pread64(int fd, void *to, size_t bytes, off_t at) {
  REAL(pread64);
  slow_down(fd);
  if (!fails_fd("read", fd)) return real(fd, to, bytes, at);
  return s_plan.error != 0 || bytes < 2 ? -1 : real(fd, to, bytes / 2, at);
}

ssize_t preadv64(int fd, const struct iovec *to, int count, off_t at) {
  REAL(preadv64);
  slow_down(fd);
  if (!fails_fd("readv", fd)) return real(fd, to, count, at);
  if (s_plan.error != 0 || count < 2) return -1;
  return real(fd, to, count / 2, at);
}

int ftruncate64(int fd, off_t length) {
  REAL(ftruncate64);
  return fails_fd("truncate", fd) ? -1 : real(fd, length);
}

int posix_fallocate64(int fd, off_t at, off_t length) {
  REAL(posix_fallocate64);
  if (fails_fd("allocate", fd)) return s_plan.error;
  const int result = real(fd, at, length);
  if (result == 0) note_longer(fd);
  return result;
}

int fallocate64(int fd, int mode, off_t at, off_t length) {
  REAL(fallocate64);
  if (fails_fd("allocate", fd)) return -1;
  const int result = real(fd, mode, at, length);
  if (result == 0 && mode == 0) note_longer(fd);
  return result;
}

int rename(const char *from, const char *to) {
  REAL(rename);
  return fails_path("rename", to) ? -1 : real(from, to);
}

int unlink(const char *path) {
  REAL(unlink);
  return fails_path("unlink", path) ? -1 : real(path);
}

int open64(const char *path, int flags, ...) {
  REAL(open64);
  va_list list;
  va_start(list, flags);
  const unsigned mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(list, unsigned) : 0;
  va_end(list);
  return fails_path("open", path) ? -1 : real(path, flags, mode);
}

int mkstemp64(char *path) {
  REAL(mkstemp64);
  return fails_path("open", path) ? -1 : real(path);
}

/* Of liburing, where the error is returned. It need not be there. */

struct io_uring;

int io_uring_queue_init(unsigned entries, struct io_uring *ring, unsigned flags);
int io_uring_register_files(struct io_uring *ring, const int *files, unsigned count);
int io_uring_submit_and_wait(struct io_uring *ring, unsigned count);

int io_uring_queue_init(unsigned entries, struct io_uring *ring, unsigned flags) {
  REAL(io_uring_queue_init);
  return s_plan.has_fault && fails("ring-setup", "other") ? -s_plan.error : real(entries, ring, flags);
}

int io_uring_register_files(struct io_uring *ring, const int *files, unsigned count) {
  REAL(io_uring_register_files);
  return s_plan.has_fault && fails("ring-setup", "other") ? -s_plan.error : real(ring, files, count);
}

int io_uring_submit_and_wait(struct io_uring *ring, unsigned count) {
  REAL(io_uring_submit_and_wait);
  return s_plan.has_fault && fails("ring-wait", "other") ? -s_plan.error : real(ring, count);
}
