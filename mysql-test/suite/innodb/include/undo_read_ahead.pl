# ==== Purpose ====
#
# Leave large transactions in a data directory of its own, and compare what
# servers with and without undo read-ahead make of it. tablespace_check.pl runs
# the servers and has most of what is needed.
#
# ==== Usage ====
#
# Within a perl block:
#
#   require "$ENV{MYSQL_TEST_DIR}/suite/innodb/include/undo_read_ahead.pl";
#   initialize_undo();
#   make_tables(N);                          # t0 to tN, each with rows
#   crash_within('UPDATE t0 SET ...', ...);  # a client for each, then kill -9
#   cool_down();                             # nothing is left for redo
#   compare('Title', settings => \@undo_settings, sql => undo_sql(N, 0));
#   finish();
#
# ==== References ====
#
# Bug#116195

require "$ENV{MYSQL_TEST_DIR}/suite/innodb/include/tablespace_check.pl";
require "$ENV{MYSQL_TEST_DIR}/suite/innodb/include/tablespace_check_faults.pl";

use strict;
use warnings;
use IPC::Open2;
use POSIX ':sys_wait_h';

# The first is what all others are compared with: one read for each page.
our @undo_settings = map { ["--innodb-undo-read-ahead-pages=$_"] }
  (0, 1, 64, 1024);
our @two_undo_settings = @undo_settings[0, 2];

# Rows of a table. About 400 bytes of undo for each that is changed.
our $n_rows = 5000;

my $socket = "$ENV{MYSQL_TMP_DIR}/check.sock";
my $seconds = 300;
my @clients;

# Make tables with rows, and what the checks need.
sub make_tables {
  my ($n_tables) = @_;
  my $sql = "SET SESSION cte_max_recursion_depth = 1000000;";

  foreach my $i (0 .. $n_tables - 1) {
    $sql .= "CREATE TABLE t$i (a INT PRIMARY KEY, b VARCHAR(500));";
    $sql .= "INSERT INTO t$i " . ($i > 0 ? 'SELECT * FROM t0;' :
        "WITH RECURSIVE n (i) AS
           (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < $n_rows)
         SELECT i, REPEAT(CHAR(65 + i % 26), 400) FROM n;");
  }

  # Ends when no more transactions are left than that.
  $sql .= "\n" . <<SQL;
    DELIMITER //
    CREATE PROCEDURE wait_for_rollback(n_trx INT)
    BEGIN
      DECLARE n INT DEFAULT ${seconds}0;
      WHILE n > 0 AND
          (SELECT COUNT(*) FROM information_schema.innodb_trx) > n_trx DO
        SET n = n - 1 - SLEEP(0.1);
      END WHILE;
    END//
    -- MySQL truncates undo tablespaces only while there is something to purge: each
    -- DELETE leaves something.
    CREATE PROCEDURE wait_until_empty(name CHAR(20))
    BEGIN
      DECLARE n INT DEFAULT ${seconds}0;
      WHILE n > 0 AND EXISTS (
          SELECT * FROM information_schema.innodb_tablespaces t
          WHERE t.name = name AND t.state <> 'empty') DO
        INSERT INTO t0 VALUES (0, '');
        DELETE FROM t0 WHERE a = 0;
        SET n = n - 1 - SLEEP(0.1);
      END WHILE;
    END//
    DELIMITER ;
SQL
  run($sql);
}

# SQL that shows whether resurrection needed as many reads as it should.
sub reads_sql {
  return <<SQL;
    SELECT pages > 100 AS many_pages, usec > 0 AS time,
        IF(\@\@innodb_undo_read_ahead_pages > 1
            AND \@\@innodb_force_recovery = 0, n_reads * 3 < pages,
          n_reads > pages * 0.9 AND n_reads <= pages) AS expected_reads
      FROM (
        SELECT
          MAX(IF(variable_name LIKE '%_pages', variable_value, 0)) AS pages,
          MAX(IF(variable_name LIKE '%_reads', variable_value, 0)) AS n_reads,
          MAX(IF(variable_name LIKE '%_usec', variable_value, 0)) AS usec
        FROM performance_schema.global_status
        WHERE variable_name LIKE 'Innodb\\_resurrect\\_%') AS s;
SQL
}

# SQL that shows the rows of tables, and the same by a sum over their contents.
sub rows_sql {
  my ($n_tables) = @_;
  return join('', map {
      "SELECT 't$_', COUNT(*), SUM(CRC32(CONCAT(a, b))) FROM t$_;"
    } 0 .. $n_tables - 1);
}

# SQL that shows the locks of prepared transactions.
sub locks_sql {
  return <<SQL;
    SELECT object_name, lock_type, lock_mode, lock_status
      FROM performance_schema.data_locks ORDER BY 1;
SQL
}

# Make a data directory. The redo log is large enough not to be waited for, and a
# recovery leaves no pages in the buffer pool, so that undo is read from files.
sub initialize_undo {
  initialize('--innodb-redo-log-capacity=64M', '--innodb-recovery-flush=WAIT',
    '--innodb-recovery-undo-scan=START', '--innodb-recovery-rollback-async=OFF', @_);
}

# SQL that waits until no more transactions than that are left, and shows all of
# it.
sub undo_sql {
  my ($n_tables, $n_trx) = @_;
  return "CALL wait_for_rollback($n_trx);" . reads_sql() . locks_sql()
    . rows_sql($n_tables);
}

# Let a client execute SQL, and then keep its transaction.
sub client_stays {
  my ($sql) = @_;
  my $n = @clients;
  my $name = "$ENV{MYSQL_TMP_DIR}/undo_read_ahead.$n";

  write_file("$name.sql", "$sql; SELECT SLEEP(3600);");
  my $client = fork();
  die "Cannot fork: $!" unless defined $client;

  if ($client == 0) {
    exec("exec $ENV{MYSQL} --user=root --protocol=socket --socket=$socket"
        . " --database=test < $name.sql > $name.out 2>&1")
      or POSIX::_exit(127);
  }
  push(@clients, $client);
}

# Wait until all those clients have executed their SQL, as long as the server gets
# on with it: it changes pages.
sub wait_for_clients {
  my $n_clients = @clients;
  my $last = '';

  for (my $waited = 0; $waited < $seconds; $waited += 0.05) {
    my (undef, $n) = client("SELECT COUNT(*) FROM performance_schema.threads
        WHERE processlist_info LIKE 'SELECT SLEEP(3600)%'", '-N');
    return if $n == $n_clients;

    my (undef, $now) = client("SELECT variable_value
        FROM performance_schema.global_status
        WHERE variable_name = 'Innodb_buffer_pool_write_requests'", '-N');
    $waited = 0 if $now ne $last;
    $last = $now;
    select(undef, undef, undef, 0.05);
  }

  die "Clients have failed:\n"
    . join("\n", map { read_file("$ENV{MYSQL_TMP_DIR}/undo_read_ahead.$_.out") }
      0 .. $n_clients - 1);
}

# Those clients end when the server has ended.
sub forget_clients {
  waitpid($_, 0) foreach @clients;
  unlink(glob("$ENV{MYSQL_TMP_DIR}/undo_read_ahead.*"));
  @clients = ();
}

# Start a server, have each SQL executed by a client at the same time, and kill
# the server when all of it is in the redo log on disk.
sub crash_within {
  start() or die 'Cannot start';
  client_stays($_) foreach @_;
  wait_for_clients();
  client('FLUSH ENGINE LOGS', '');
  crash();
  forget_clients();
}

# Recover and shut down without rollback, so that the next start finds the
# transactions in undo pages that are not in the buffer pool.
sub cool_down {
  start('--innodb-force-recovery=3') or die 'Cannot start';
  stop();
}

our $N_PAGE_BYTES = 16384;

# Wait until something is true.
sub wait_until {
  my ($what, $is_true) = @_;
  for (my $waited = 0; $waited < $seconds; $waited += 0.05) {
    return if $is_true->();
    select(undef, undef, undef, 0.05);
  }
  die "Waited in vain: $what";
}

# How many of the first tables have the rows that make_tables() gave them.
sub n_unchanged {
  my ($n_tables) = @_;
  my $sql = join('', map {
      "SELECT COUNT(*) = $n_rows AND SUM(b = REPEAT(CHAR(65 + a % 26), 400))
         = $n_rows FROM t$_;" } 0 .. $n_tables - 1);
  my ($success, $seen) = client($sql, '-N --database=test');
  die $seen unless $success;
  return scalar(grep { $_ eq '1' } split(/\n/, $seen));
}

# The value of a status variable.
sub status {
  my ($name) = @_;
  my (undef, $value) = client("SELECT variable_value
    FROM performance_schema.global_status WHERE variable_name = '$name'", '-N');
  chomp($value);
  return $value;
}

# A client that is there before the server has trouble: a new one may wait for
# pages.
my ($monitor_pid, $monitor_in, $monitor_out);

# What moves while anything gets on. SHOW ENGINE INNODB STATUS would do, but a
# debug server looks at each page with locks then, and waits for those that are
# being changed.
my $MOVING = "SELECT pending_reads, pages_made_young, number_pages_read
    FROM information_schema.innodb_buffer_pool_stats;
  SHOW GLOBAL STATUS WHERE variable_name IN ('Innodb_data_reads',
    'Innodb_redo_log_current_lsn', 'Innodb_rows_updated')";

sub open_monitor {
  $monitor_pid = open2($monitor_out, $monitor_in, "exec $ENV{MYSQL} --user=root"
      . " --protocol=socket --socket=$socket --raw --unbuffered -N 2>&1");
  ask($MOVING);
  n_held();
}

sub close_monitor {
  close($monitor_in);
  close($monitor_out);
  waitpid($monitor_pid, 0);
}

# What the server answers to that client.
sub ask {
  my ($sql) = @_;
  my $answer = '';
  print $monitor_in "$sql; SELECT 'that is all';\n";
  while (my $line = <$monitor_out>) {
    return $answer if $line =~ /^that is all/;
    $answer .= $line;
  }
  die "The server says no more: $answer";
}

# Pages of undo tablespaces that are being read, and have a block of the buffer
# pool.
sub n_held {
  my $n = ask("SELECT COUNT(*) FROM information_schema.innodb_buffer_page
    WHERE io_fix = 'IO_READ' AND space > 4294000000");
  $n =~ /^(\d+)$/ or die $n;
  return $1;
}

# Wait until nothing gets on any more: until what a function returns, by default
# the answer of the monitor, stays the same for some seconds.
sub wait_for_standstill {
  my ($n_seconds, $state) = @_;
  my ($last, $since) = ('', time());
  wait_until('standstill', sub {
      my $now = $state ? $state->() : ask($MOVING);
      $since = time() if $now ne $last;
      $last = $now;
      return time() - $since >= ($n_seconds // 4);
    });
}

# The numbers of those pages of a file that have a type and, if given, are of
# a kind of undo log.
sub pages_of_type {
  my ($name, $type, $kind) = @_;
  my @pages;

  open(my $file, '<', $name) or die "Cannot open $name: $!";
  binmode($file);
  for (my $page_no = 0; read($file, my $page, $N_PAGE_BYTES); ++$page_no) {
    push(@pages, $page_no)
      if unpack('n', substr($page, 24, 2)) == $type
      && (!defined($kind) || unpack('n', substr($page, 38, 2)) == $kind);
  }
  close($file);
  return @pages;
}

our $TYPE_UNDO_LOG  = 2;
our $TYPE_ENCRYPTED = 15;
our $KIND_UPDATE    = 2;

# A test that fails leaves no client behind.
END {
  kill('KILL', @clients) if @clients;
}

1;
