# ==== Purpose ====
#
# Leave a redo log that reorganizes a page for each page that it changes, and
# recover with a buffer pool that is much smaller than these pages.
# tablespace_check.pl runs the servers.
#
# ==== Usage ====
#
# Within a perl block:
#
#   require "$ENV{MYSQL_TEST_DIR}/suite/innodb/include/redo_no_hang.pl";
#   make_reorganizations($n_pages, $table_options, @server_options);
#   recover(@server_options);    # as often as wanted, each time the same crash
#   finish();

require "$ENV{MYSQL_TEST_DIR}/suite/innodb/include/tablespace_check.pl";

use strict;
use warnings;

# Rows of which at least as many stand on each page.
my $n_page_rows = 96;

# A thread that has searched for a free block that often, and waited 10 ms after
# each time, would search for ever.
my $n_searches = 2000;

my $log     = "$ENV{MYSQL_TMP_DIR}/tablespace_check.err";
my $device  = "$ENV{MYSQL_TMP_DIR}/redo_no_hang";
my $rows    = 'SELECT COUNT(*), SUM(CRC32(CONCAT(a, b))) FROM t';
my $rows_before;

# All servers from now on have a slow device, which redo_no_hang.c explains, until
# the file "slowly" is removed.
sub use_slow_device {
  my ($usec) = @_;
  my $source = "$ENV{MYSQL_TEST_DIR}/suite/innodb/include/redo_no_hang.c";

  rmtree($device);
  mkdir($device) or die "Cannot make $device: $!";
  system('cc', '-shared', '-fPIC', '-O1', '-o', "$device/slow.so", $source,
    '-ldl') == 0 or die "Cannot compile $source";
  write_file("$device/slowly", '');
  set_wrapper('env', "LD_PRELOAD=$device/slow.so", "READ_USEC=$usec",
    "READ_SLOWLY=$device/slowly",
    'ASAN_OPTIONS=verify_asan_link_order=0'
      . ($ENV{ASAN_OPTIONS} ? ":$ENV{ASAN_OPTIONS}" : ''));
}

# Make a table of about that many pages, with many short rows, some of which are
# deleted on each page. There is room for the long row that the last statement
# makes of a short one, but it is in pieces: so the statement reorganizes each
# page. Nothing of it reaches the tablespace before the server is killed. Returns
# how many pages were reorganized.
sub make_reorganizations {
  my ($n_pages, $table_options, @server_options) = @_;
  my $n_rows = $n_page_rows * $n_pages;

  initialize('--innodb-redo-log-capacity=64M', '--innodb-adaptive-flushing=OFF',
    '--innodb-max-dirty-pages-pct=99', '--innodb-io-capacity=100',
    '--innodb-io-capacity-max=200', @server_options);

  my @large = ('--innodb-buffer-pool-size=128M');
  start(@large) or die 'Cannot start';
  foreach my $sql (
    "CREATE TABLE t (a INT PRIMARY KEY, b VARCHAR(6000) CHARACTER SET latin1)
       $table_options",
    "SET SESSION cte_max_recursion_depth = 1000000;
     INSERT INTO t WITH RECURSIVE n (i) AS
       (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < $n_rows)
       SELECT i, LEFT(SHA2(i, 512), 120) FROM n",
    "DELETE FROM t WHERE a % $n_page_rows < 14",
    'SET GLOBAL innodb_fast_shutdown = 0') {
    my ($success, $output) = client($sql, '--database=test');
    die $output unless $success;
  }
  stop();

  start(@large, '--innodb-idle-flush-pct=0', '--innodb-max-dirty-pages-pct-lwm=0')
    or die 'Cannot start';
  my ($success, $output) = client(<<SQL, '--database=test -N');
    SET GLOBAL innodb_monitor_enable = 'index_page_reorg_%';
    UPDATE t SET b = REPEAT(b, 15) WHERE a % $n_page_rows = 50;
    SELECT count FROM information_schema.innodb_metrics
      WHERE name = 'index_page_reorg_successful';
    $rows;
SQL
  die $output unless $success;
  crash();
  (my $n, $rows_before) = $output =~ /^(\d+)\n(.*)/ or die $output;
  return $n;
}

# How often the thread that wrote the last lines of the error log has searched for
# a free block, if that is what they say.
sub n_searches {
  open(my $file, '<', $log) or return 0;
  seek($file, -4096, 2);
  local $/;
  return (<$file> || '') =~ /.*\((\d+) search iterations/s ? $1 : 0;
}

# Recover, and compare the rows with those before the crash. The server must not
# come to a stop before that.
sub recover {
  my (@server_options) = @_;
  my $outcome;

  system('cp', '-a', 'data', 'data.crashed') == 0 or die 'Cannot copy';
  use_slow_device(200000);
  start_and_kill(sub {
      if (n_searches() >= $n_searches) {
        $outcome = 'Recovery hangs: it finds no free block.';
      } elsif (IO::Socket::UNIX->new(Peer => "$ENV{MYSQL_TMP_DIR}/check.sock")) {
        unlink("$device/slowly");
        my (undef, $now) = client("$rows; CHECK TABLE t", '--database=test -N');
        $outcome = $now eq "$rows_before\ntest.t\tcheck\tstatus\tOK\n"
          ? 'All rows are there.' : "Before: $rows_before\nNow: $now";
      }
      return $outcome;
    }, qr/$/, @server_options);
  print("$outcome\n");
  set_wrapper();
  rmtree('data');
  move('data.crashed', 'data');
}

# A test that fails leaves nothing behind.
END {
  rmtree($device);
}

1;
