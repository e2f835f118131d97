# ==== Purpose ====
#
# Make calls of the servers that tablespace_check.pl runs fail or wait, and count
# them.
#
# ==== Usage ====
#
# Within a perl block, after tablespace_check.pl:
#
#   require "$ENV{MYSQL_TEST_DIR}/suite/innodb/include/tablespace_check_faults.pl";
#   initialize();
#   use_faults();
#   fault('preadv', 'undo_0 fail');   # until
#   end_fault('preadv');
#
# ==== References ====
#
# Bug#79025, Bug#116195

use strict;
use warnings;
use File::Path;

# Preload tablespace_check_faults.c into all servers from now on. It has to be there, so a machine
# without a compiler fails the test.
my $fault_dir = "$ENV{MYSQL_TMP_DIR}/faults";

sub use_faults {
  my $source  = "$ENV{MYSQL_TEST_DIR}/suite/innodb/include/tablespace_check_faults.c";
  my $library = "$fault_dir/faults.so";

  rmtree($fault_dir);
  mkdir($fault_dir) or die "Cannot make $fault_dir: $!";
  system('cc', '-shared', '-fPIC', '-O1', '-o', $library, $source, '-ldl') == 0
    or die "Cannot compile $source";
  set_wrapper('env', "LD_PRELOAD=$library", "FAULT_DIR=$fault_dir",
    'ASAN_OPTIONS=verify_asan_link_order=0'
      . ($ENV{ASAN_OPTIONS} ? ":$ENV{ASAN_OPTIONS}" : ''));
}

# From now on calls of a function do as a rule says, which tablespace_check_faults.c explains.
sub fault {
  my ($function, $rule) = @_;
  unlink("$fault_dir/$function.hits");
  write_file("$fault_dir/$function.new", $rule);
  move("$fault_dir/$function.new", "$fault_dir/$function");
}

# The function works again. Returns how many calls the rule was applied to.
sub end_fault {
  my ($function) = @_;
  unlink("$fault_dir/$function");
  return n_faults($function);
}

# How many calls the rule was applied to so far.
sub n_faults {
  my ($function) = @_;
  return (-s "$fault_dir/$function.hits") || 0;
}

# A test that fails leaves nothing behind.
END {
  rmtree($fault_dir);
}

1;
