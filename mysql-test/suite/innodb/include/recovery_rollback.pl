# ==== Purpose ====
#
# Leave prepared transactions that the binary log does not know in a data
# directory of its own, and start servers on copies of it.
#
# ==== Usage ====
#
# Within a perl block:
#
#   require "$ENV{MYSQL_TEST_DIR}/suite/innodb/include/recovery_rollback.pl";
#   initialize_rollback();
#   make_tables(N);
#   start() or die;
#   client_stays('UPDATE t0 ...');            # until the binary log is blocked
#   crash_before_binlog('BEGIN; ...; COMMIT', ...);
#   restore_crash();                          # a copy of what was left
#   start(async('ON')) or die;
#
# undo_read_ahead.pl and tablespace_check.pl have the rest.
#
# ==== References ====
#
# Bug#101115

require "$ENV{MYSQL_TEST_DIR}/suite/innodb/include/undo_read_ahead.pl";

use strict;
use warnings;
use File::Path;

my $crash = "$ENV{MYSQL_TMP_DIR}/recovery_rollback.crash";
my $n_clients = 0;
my $error_log = "$ENV{MYSQL_TMP_DIR}/tablespace_check.err";

# Undo is read page by page, so that a rollback is no faster than its pages.
sub initialize_rollback {
  initialize_undo('--log-bin=binlog', '--server-id=1', '--max-connections=500',
    '--innodb-undo-read-ahead-pages=0', @_);
  use_faults();
}

sub async {
  my ($value) = @_;
  return "--innodb-recovery-rollback-async=$value";
}

# A server runs, and no write to the binary log returns any more. Clients execute
# SQL that ends with a commit, each; when all are prepared, the server is killed.
sub crash_before_binlog {
  my (@commits) = @_;

  fault('write', 'data/binlog.0 block');
  client_stays($_) foreach @commits;
  wait_until('commits', sub {
      my (undef, $n) = client("SELECT COUNT(*) FROM performance_schema.threads
        WHERE processlist_state = 'waiting for handler commit'
          AND type = 'FOREGROUND'", '-N');
      return $n == @commits && n_faults('write') > 0;
    });

  # The state is shown a moment before a transaction is prepared.
  wait_for_standstill(2, sub { status('Innodb_redo_log_current_lsn') });
  my ($success, $output) = client('FLUSH LOCAL ENGINE LOGS', '');
  die $output unless $success;

  crash();
  end_fault('write');
  forget_clients();
  rmtree($crash);
  system('cp', '-a', 'data', $crash) == 0 or die 'Cannot copy data';
}

# What that crash has left.
sub restore_crash {
  rmtree('data');
  system('cp', '-a', $crash, 'data') == 0 or die 'Cannot restore data';
}

# What a client sees.
sub answers {
  my ($sql) = @_;
  my (undef, $output) = client($sql, '--database=test --force');
  return $output;
}

sub n_handed_over {
  return status('Innodb_recovery_rollback_async_transactions');
}

sub error_log { return read_file($error_log); }

# Start a server that rolls back a table slowly, page by page from disk, and
# wait until it is in the middle. Then it waits.
sub start_and_hold {
  my ($table, @options) = @_;

  fault('page', "test/$table.ibd slow");
  start(@options) or die "Cannot start:\n" . error_log();
  my $n_before;
  wait_until('rollback', sub {
      return 0 unless error_log() =~ /Rolling back trx with id/;
      $n_before = n_faults('page') unless defined $n_before;
      return n_faults('page') >= $n_before + 5;
    });
  fault('page', "test/$table.ibd block");
  wait_until('a read of the rollback', sub { n_faults('page') > 0 });
}

# It goes on.
sub let_go {
  end_fault('page');
}

sub scan {
  my ($when) = @_;
  return "--innodb-recovery-undo-scan=$when";
}

sub scan_status {
  my ($name) = @_;
  return status("Innodb_recovery_lock_scan_$name");
}

# Start a server whose thread that rolls back stops at its first page.
sub start_and_stop_scan {
  my (@options) = @_;
  fault('page', 'ib_tx_recov block');
  start(scan('BACKGROUND'), @options) or die "Cannot start:\n" . error_log();
  wait_until('a read of undo', sub { n_faults('page') > 0 });
  die 'It has read' unless scan_status('running') eq 'ON';
}

# A client that may have to wait. Returns its process. With options for the
# client, if any.
sub client_waits {
  my ($sql, $options) = @_;
  $options = '' unless defined $options;
  my $name = "$ENV{MYSQL_TMP_DIR}/recovery_undo_scan." . $n_clients++;
  write_file("$name.sql", $sql);
  my $pid = fork();
  die "Cannot fork: $!" unless defined $pid;
  if ($pid == 0) {
    exec("exec $ENV{MYSQL} --user=root --protocol=socket"
        . " --socket=$ENV{MYSQL_TMP_DIR}/check.sock --database=test $options"
        . " < $name.sql > $name.out 2>&1") or POSIX::_exit(127);
  }
  return { pid => $pid, name => $name };
}

sub output_of {
  my ($client) = @_;
  waitpid($client->{pid}, 0);
  my $output = read_file("$client->{name}.out");
  unlink("$client->{name}.sql", "$client->{name}.out");
  return $output;
}

# Wait until some clients are in a state.
sub wait_for_state {
  my ($state, $n_clients) = @_;
  wait_until($state, sub {
      my (undef, $n) = client("SELECT COUNT(*) FROM performance_schema.threads
        WHERE processlist_state = '$state'", '-N');
      return $n == $n_clients;
    });
}

sub finish_rollback {
  rmtree($crash);
  finish();
}

1;
