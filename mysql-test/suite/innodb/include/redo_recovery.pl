# ==== Purpose ====
#
# Leave a data directory with much redo, recover copies of it with each value of
# innodb_redo_recovery, and compare them page by page. tablespace_check.pl runs the
# servers.
#
# ==== Usage ====
#
# Within a perl block:
#
#   require "$ENV{MYSQL_TEST_DIR}/suite/innodb/include/redo_recovery.pl";
#   initialize_lazily();          # or initialize_lazily($page_size), in KiB, and
#                                 # with options of its servers
#   make_crash($sql);             # executed before the load
#   compare_pages(@server_options);     # as often as wanted, each time the same crash
#   check_rows(@server_options);  # the same
#   kill_in_recovery(@options);   # the same
#   forget_crash();               # or forget_crash($sql), if make_crash() has not made it
#   damage_and_compare();
#   compare_with_fault($debug);   # of a debug server
#   compare_early($n_kills, $work, @server_options);  # innodb_recovery_flush; $work is
#                                 # \&write_some or \&write_half, if anything
#   check_left(@server_options);  # after some of these
#   check_unsorted(@server_options);    # the same, of a debug server
#   check_full_log();
#   check_unwritten();
#   make_crash_with_buffered_changes();   # instead of make_crash()
#   make_crash_with_hot_pages();  # the same
#   compare_runs($is_kept, @server_options);  # after that
#   check_refusal($what, @server_options);    # the same
#   check_buffered(@server_options);
#   make_crash_with_pages_written_twice();    # instead of make_crash()
#   make_crash_with_encrypted_undo();   # the same
#   spoil_with(\&tear_pages);     # from now on, before each recovery of a crash; or
#                                 # \&make_backup, \&damage_page, \&forge_copy,
#                                 # \&tear_page_of_growing_file (of hot pages),
#                                 # \&pretend_clean_shutdown, or nothing
#   check_second_crash();         # the same
#   check_damaged();              # with \&damage_page, after compare_pages()
#   check_log($pattern);          # what the last recovery must have said
#   check_read_only();
#   make_crash_with_counter();    # instead of make_crash()
#   check_counter(@server_options);
#   finish();

require "$ENV{MYSQL_TEST_DIR}/suite/innodb/include/tablespace_check.pl";

use strict;
use warnings;

use File::Path qw(rmtree);

# A recovery that changes fewer pages than that shows nothing.
my $n_least_pages = 500;

my $log = "$ENV{MYSQL_TMP_DIR}/tablespace_check.err";

# Tables of each kind, with the same rows.
my %tables = (
  redundant  => 'ROW_FORMAT=REDUNDANT',
  compact    => 'ROW_FORMAT=COMPACT',
  dynamic    => 'ROW_FORMAT=DYNAMIC',
  compressed => 'ROW_FORMAT=COMPRESSED KEY_BLOCK_SIZE=8',
  encrypted  => "ENCRYPTION='Y'",
  instant    => 'ROW_FORMAT=DYNAMIC',
  instant_r  => 'ROW_FORMAT=REDUNDANT',
  parts      => 'PARTITION BY HASH (a) PARTITIONS 3');
my @names = sort(keys(%tables));

# Size of pages, and of those of the compressed table.
my ($page_bytes, $zip_bytes) = (16384, 8192);

# Rows of each table: with large pages more, to have as many pages.
my $n_rows = 3000;

# A data directory whose servers write a page only if they have to, and recover as
# MySQL does where a test does not say otherwise.
sub initialize_lazily {
  my ($page_kib, @server_options) = @_;
  if (defined $page_kib) {
    $page_bytes = 1024 * $page_kib;
    $zip_bytes  = $page_bytes / 2;
    $n_rows *= 4 if $page_kib > 16;
    if ($page_kib > 16) {
      delete $tables{compressed};
    } else {
      $tables{compressed} = 'ROW_FORMAT=COMPRESSED KEY_BLOCK_SIZE=' . $page_kib / 2;
    }
    @names = sort(keys(%tables));
  }
  initialize("--innodb-page-size=$page_bytes",
    '--innodb-redo-recovery=STOCK', '--innodb-recovery-flush=WAIT',
    '--innodb-redo-log-capacity=256M', '--innodb-adaptive-flushing=OFF',
    '--innodb-max-dirty-pages-pct=99', '--innodb-idle-flush-pct=0',
    '--innodb-max-dirty-pages-pct-lwm=0', '--innodb-stats-auto-recalc=OFF',
    '--innodb-io-capacity=300', '--innodb-io-capacity-max=600', @server_options);
}

# Let such a server write some pages, the oldest changes first, until there is
# another checkpoint than that of the crash, or one behind an LSN.
sub write_some {
  my $lsn = $_[0] // file_checkpoint('data.crashed');
  sql('SET GLOBAL innodb_io_capacity = 100; SET GLOBAL innodb_idle_flush_pct = 100');
  for (my $waited = 0; file_checkpoint('data') <= $lsn; $waited += 0.02) {
    die 'No checkpoint is written' if $waited > 300;
    select(undef, undef, undef, 0.02);
  }
}

# The checkpoint in the files of a redo log. A file of it begins with four blocks,
# the first with the LSN of the file, the second and the last with a checkpoint.
sub file_checkpoint {
  my ($home) = @_;
  my $newest = 0;

  foreach my $name (glob("$home/#innodb_redo/#ib_redo*")) {
    next unless $name =~ /#ib_redo\d+$/;
    open(my $in, '<:raw', $name) or next;
    read($in, my $header, 2048) == 2048 or next;
    my $first = unpack('Q>', substr($header, 8, 8));
    foreach my $at (512, 1536) {
      my $lsn = unpack('Q>', substr($header, $at + 8, 8));
      $newest = $lsn
        if $lsn > $newest && $lsn >= $first && $lsn < $first + (-s $name) - 2048;
    }
  }
  return $newest;
}

# The rows of all tables.
sub sums {
  return join(' UNION ALL ', map {
      "SELECT '$_', COUNT(*), SUM(a), SUM(CRC32(CONCAT_WS('-', b, c, d))) FROM $_"
    } @names) . ';SELECT COUNT(*), SUM(a), SUM(CRC32(b)) FROM late;'
    . 'SELECT COUNT(*), SUM(a) FROM late_too;'
    . 'CHECK TABLE late, late_too, ' . join(', ', @names);
}

my $sums_before;

sub sql {
  my ($sql) = @_;
  my ($success, $output) = client($sql, '--database=test -N');
  die $output unless $success;
  return $output;
}

# Make the tables, write all pages, then change many rows in many ways and kill the
# server before it has written any of that.
sub make_crash {
  my ($first) = @_;

  start('--innodb-buffer-pool-size=256M') or die 'Cannot start';
  sql($first);
  foreach my $name (@names) {
    make_table($name, $tables{$name}, $n_rows);
  }
  sql('SET GLOBAL innodb_fast_shutdown = 0');
  stop();

  start('--innodb-buffer-pool-size=256M') or die 'Cannot start';
  foreach my $name (@names) {
    if ($name =~ /^instant/) {
      sql("ALTER TABLE $name ADD COLUMN e INT DEFAULT 7 AFTER b, ALGORITHM=INSTANT;
           UPDATE $name SET e = a WHERE a % 5 = 0;
           ALTER TABLE $name DROP COLUMN e, ALGORITHM=INSTANT;
           ALTER TABLE $name ADD COLUMN f VARCHAR(9) DEFAULT 'f',
             ALGORITHM=INSTANT");
    }
    sql("UPDATE $name SET b = CONCAT(b, REPEAT('x', a % 90)), d = d + 1
           WHERE a % 4 = 0;
         DELETE FROM $name WHERE a % 11 = 0 OR a BETWEEN 4500 AND 5200;
         INSERT INTO $name (a, b, c, d)
           SELECT a + 1, REVERSE(b), c, -d FROM $name WHERE a % 3 = 0;
         UPDATE $name SET c = UPPER(c) WHERE a % 7 = 0;
         BEGIN;
         UPDATE $name SET b = 'rolled back' WHERE a % 13 = 0;
         ROLLBACK");
  }
  # Nothing but redo has the first page of the one, and the new flags of the other.
  sql("CREATE TABLE late (a INT PRIMARY KEY, b CHAR(9)) ENCRYPTION='Y';
       INSERT INTO late SELECT a, LEFT(b, 9) FROM dynamic WHERE a < 400;
       CREATE TABLESPACE late_space ADD DATAFILE 'late_space.ibd';
       CREATE TABLE late_too (a INT PRIMARY KEY) TABLESPACE late_space;
       INSERT INTO late_too SELECT a FROM late;
       ALTER TABLESPACE late_space ENCRYPTION='Y'");
  $sums_before = sql(sums());
  crash();
  move('data', 'data.crashed');
}

# What is done to a crash before each recovery.
my $spoil;

sub spoil_with { ($spoil) = @_; }

# Begin with the crash again.
sub restore {
  rmtree('data');
  system('cp', '-a', '--sparse=always', 'data.crashed', 'data') == 0
    or die 'Cannot copy';
  $spoil->() if $spoil;
}

# Recover, and remove what was made for the crash.
sub forget_crash {
  my ($sql) = @_;
  rmtree('data');
  move('data.crashed', 'data');
  start('--innodb-buffer-pool-size=256M') or die 'Cannot start';
  sql($sql // 'DROP TABLE late, late_too, ' . join(', ', @names)
    . '; DROP TABLESPACE late_space');
  stop();
}

# All pages of the tables, of the system tablespace and of the undo tablespaces. Not
# of mysql.ibd, which the server itself writes at each start. Nor of a table that
# redo removes: what is changed before that depends on where a batch ends.
sub pages {
  my ($home) = @_;
  my %pages;

  foreach my $file (glob("$home/test/*.ibd"), glob("$home/undo_*"),
    "$home/ibdata1") {
    my $n_bytes = $file =~ /compressed/ ? $zip_bytes : $page_bytes;
    my ($name) = $file =~ m{([^/]+)$};
    next if $name =~ /^gone\d+\.ibd$/;
    open(my $in, '<:raw', $file) or die "Cannot read $file: $!";
    for (my $n = 0; read($in, my $page, $n_bytes); ++$n) {
      $pages{"$name:$n"} = $page;
    }
  }
  return \%pages;
}

# Which pages differ. The checksum need not be looked at: it follows from the rest.
sub differences {
  my ($one, $other) = @_;
  my %all = (%$one, %$other);
  return grep {
    !defined $one->{$_} || !defined $other->{$_} || $one->{$_} ne $other->{$_}
  } sort(keys(%all));
}

# Batches of the last recovery, and where redo of the crash ends.
my ($n_batches, $end_of_redo);

# Bytes of redo that it read.
my $n_redo_bytes;

# Pages that it read, in how many reads, and pages that were there from the batch before.
my ($n_pages_read, $n_page_reads, $n_pages_kept);

# Pages after it.
my $recovered;

# Let a server write pages until a checkpoint has passed half of the redo, and with it
# changes of pages that were changed again after it.
sub write_half {
  my $begin = file_checkpoint('data.crashed');
  write_some($begin + int(($end_of_redo - $begin) / 2));
}

# Recover without rollback and purge.
sub recovered {
  my (@server_options) = @_;
  restore();
  start('--innodb-force-recovery=3', @server_options)
    or die 'Cannot start: ' . read_file($log);
  my $n_pages;
  ($n_batches, $n_pages) = check_status();
  stop();
  die "Redo for $n_pages pages only" if $n_pages < $n_least_pages;
  my ($n_used) = read_file($log) =~ /used them again (\d+) times/;
  my $is_parallel = grep(/PARALLEL/, @server_options);
  die 'Objects of indexes were used again ' . ($n_used // 0) . ' times'
    if $is_parallel ? ($n_used // 0) < 10000 : defined $n_used;
  $end_of_redo = (read_file($log) =~ /scanned up to log sequence number (\d+)/g)[-1];
  return $recovered = pages('data');
}

# The status variables must say what the error log says of the recovery. Returns its
# batches, and their pages.
sub check_status {
  my %status = split(' ', sql("SHOW GLOBAL STATUS LIKE 'Innodb_recovery_%'"));
  my $text = read_file($log);
  my ($n_pages, $n_reads, $n_kept) = runs();
  my ($n_batches, $n_applied) = (0, 0);
  while ($text =~ /Applying a batch of (\d+) redo/g) {
    ++$n_batches;
    $n_applied += $1;
  }
  my $value = sub { return $status{"Innodb_recovery_$_[0]"} // -1; };

  die join(' ', 'Status:', %status)
    if $value->('batches') != $n_batches
    || $value->('pages_kept') != $n_kept
    || $value->('pages_read') < $n_pages
    || $value->('pages_read') > $n_applied + 1000
    || $value->('page_reads') < $n_reads
    || $value->('redo_bytes') < 1024 * 1024
    || $value->('redo_usec') <= 0
    || $value->('apply_usec') <= 0;
  $n_redo_bytes = $value->('redo_bytes');
  ($n_pages_read, $n_page_reads, $n_pages_kept) = ($value->('pages_read'),
    $value->('page_reads'), $n_kept);
  return ($n_batches, $n_applied);
}

sub compare_pages {
  my (@server_options) = @_;
  my $stock    = recovered('--innodb-redo-recovery=STOCK', @server_options);
  my ($n_batches_of_stock, $n_pages_of_stock, $n_reads_of_stock)
    = ($n_batches, $n_pages_read, $n_page_reads);
  my $parallel = recovered('--innodb-redo-recovery=PARALLEL', @server_options);
  my $n_changed = differences(pages('data.crashed'), $stock);
  my @differences = differences($stock, $parallel);

  if ($n_changed < $n_least_pages) {
    print("Only $n_changed pages were recovered.\n");
  } elsif (@differences) {
    print(scalar(@differences) . " pages differ: @differences[0 .. min($#differences, 20)]\n");
  } elsif ($n_pages_read > 1.5 * $n_pages_of_stock
    || $n_page_reads > 1.2 * $n_reads_of_stock) {
    print("$n_pages_read pages in $n_page_reads reads instead of $n_pages_of_stock"
      . " in $n_reads_of_stock.\n");
  # Batches cost nothing where pages stay between them.
  } elsif ($n_pages_kept == 0 && $n_batches > 1.5 * $n_batches_of_stock + 1) {
    print("$n_batches batches instead of $n_batches_of_stock.\n");
  } else {
    print("The same pages");
    # In larger pools both have some, or one, and how many depends on how much redo
    # the load has made.
    print("@server_options" =~ /pool-size=5M/ && $n_batches < $n_batches_of_stock
      ? ", in fewer batches.\n" : ".\n");
  }
}

sub min { return $_[0] < $_[1] ? $_[0] : $_[1]; }

# The rows after a recovery and CHECK TABLE, against those before the crash.
sub print_rows {
  my $now = sql(sums());
  stop();
  print($now eq $sums_before ? "The same rows.\n"
    : "Before:\n$sums_before\nNow:\n$now\n");
}

sub check_rows {
  my (@server_options) = @_;
  restore();
  start(@server_options) or die 'Cannot start: ' . read_file($log);
  print_rows();
}

# Kill the recovery three times, each time a little later.
sub kill_in_recovery {
  my (@server_options) = @_;
  restore();
  foreach my $n (1 .. 3) {
    my $begin = 0;
    my $killed = start_and_kill(sub {
        $begin ||= time() if read_file($log) =~ /Applying a batch of/;
        return $begin && (select(undef, undef, undef, 0.1 * $n) || 1);
      }, qr/ready for connections/, @server_options);
    print("too late, ") unless $killed;
  }
  start(@server_options) or die 'Cannot start';
  print_rows();
}

# One page of two recoveries that were the same is changed.
sub damage_and_compare {
  my $stock = recovered('--innodb-redo-recovery=STOCK');
  my %other = %$stock;
  substr($other{'dynamic.ibd:9'}, 300, 1) ^= "\x01";
  my @differences = differences($stock, \%other);
  print("@differences\n");
}

# What no server writes by itself in a start without rollback.
sub of_tables {
  my ($pages) = @_;
  return { map { $_ => $pages->{$_} } grep { !/^(ibdata1|undo_)/ } keys(%$pages) };
}

# Pages that were left by all that opened early, since check_left().
my $n_left_in_all = 0;

# Open without rollback and purge before all pages are written, and do no more about
# that.
sub open_early {
  my (@server_options) = @_;
  start('--innodb-force-recovery=3', '--innodb-recovery-flush=BACKGROUND',
    @server_options) or die 'Cannot start';
  my ($n_left) = read_file($log) =~ /Redo recovery: (\d+) changed pages are left/;
  die 'No pages were left: ' . join('; ', read_file($log) =~ /(Redo recovery: .*|Applying a batch.*)/g)
    unless defined $n_left;
  # With a small pool the last batch may have few, and a server that was killed may
  # have written them: see check_left().
  die "$n_left pages were left" if $n_left < 100 && !is_small(@server_options);
  $n_left_in_all += $n_left;
}

# A pool that does not hold all pages that redo changes.
sub is_small {
  my (@server_options) = @_;
  return "@server_options" =~ /pool-size=16M/;
}

# All that opened early since the last call must have left pages enough to compare. With
# a small pool page cleaners may have written all of the last batch by then.
sub check_left {
  my (@server_options) = @_;
  my $n_left = $n_left_in_all;
  $n_left_in_all = 0;
  die "$n_left pages were left in all"
    if $n_left < $n_least_pages && !is_small(@server_options);
}

# Pages whose redo a checkpoint has passed, and which are not written: their last
# change is older than the checkpoint, and not in the file. One of the crash itself
# has passed others.
sub lacking {
  my ($expected, $begin, $checkpoint) = @_;
  my $pages = of_tables(pages('data'));
  my $lsn = sub { return defined $_[0] ? unpack('Q>', substr($_[0], 16, 8)) : 0; };
  my $limit = min($checkpoint, $end_of_redo);

  return grep {
    my $wanted = $lsn->($expected->{$_});
    $wanted > $begin && $wanted <= $limit && $lsn->($pages->{$_}) < $wanted
  } keys(%$expected);
}

# The pages after a server that opened early has been killed some times, has done
# something each time, and opens early once more, against those of a server that
# waits. Where it has done something, a checkpoint must have come, and not passed
# all. If pages differ so much that their redo cannot be applied, they differ.
sub compare_early {
  my ($n_kills, $work, @server_options) = @_;
  my $stock = of_tables(recovered('--innodb-redo-recovery=STOCK'));
  my $n_changed = differences(of_tables(pages('data.crashed')), $stock);

  restore();
  my $begin = file_checkpoint('data');
  foreach my $n (1 .. $n_kills) {
    open_early(@server_options);
    $work->() if $work;
    crash();
    my $checkpoint = file_checkpoint('data');
    if ($work) {
      die 'The checkpoint has not moved' if $checkpoint <= $begin;
      die 'No page was left when it was killed'
        if $checkpoint >= $end_of_redo && !is_small(@server_options);
    }
    if (lacking($stock, $begin, $checkpoint)) {
      print("A checkpoint has passed pages that are not written.\n");
      return;
    }
  }
  # What is wrong now must be seen, and not be made again.
  if ($work) {
    if (!start('--innodb-force-recovery=3')) {
      die 'Cannot start' unless read_file($log) =~ /Applying a batch of [1-9]/;
      print("Pages differ.\n");
      return;
    }
  } else {
    open_early(@server_options);
  }
  stop();
  my @differences = differences($stock, of_tables(pages('data')));

  if ($n_changed < $n_least_pages) {
    print("Only $n_changed pages were recovered.\n");
  } else {
    print(@differences ? "Pages differ.\n" : "The same pages.\n");
  }
}

# Leave flush lists as they were, in a debug server. That ends when it looks at the
# lists by itself; if it does not, a checkpoint passes pages that are not written.
sub check_unsorted {
  my (@server_options) = @_;
  my $stock = of_tables(recovered('--innodb-redo-recovery=STOCK'));

  restore();
  my $begin = file_checkpoint('data');
  eval { open_early(@server_options, '--debug=d,recovery_flush_skip_sort') };
  if ($@) {
    die $@ unless $@ =~ /^Cannot start/;
  } else {
    eval { write_some() };
    crash();
  }
  my $is_seen = read_file($log) =~ /Assertion failure: buf0flu\.cc/;
  print($is_seen || lacking($stock, $begin, file_checkpoint('data'))
    ? "It is seen.\n" : "It is not seen.\n");
}

# The rows after a recovery that takes the redo log for full, in a debug server.
sub check_full_log {
  restore();
  start('--innodb-recovery-flush=BACKGROUND', '--innodb-buffer-pool-size=128M',
    '--debug=d,recovery_flush_full_log') or die 'Cannot start';
  print(read_file($log) =~ /Redo recovery: wrote \d+ pages with the oldest changes/
    ? 'Some pages were written. ' : 'No page was written. ');
  print_rows();
}

# The rows after a recovery that can write none of the pages that a start needs in
# their files, in a debug server.
sub check_unwritten {
  restore();
  start('--innodb-recovery-flush=BACKGROUND', '--innodb-buffer-pool-size=128M',
    '--debug=d,recovery_flush_write_nothing') or die 'Cannot start';
  print(read_file($log) =~ /because a page that the start needs in its file cannot be written/
    ? 'All pages were written. ' : 'Pages were left. ');
  print_rows();
}

# Leave an index whose pages have changes in redo, and others in the change buffer.
sub make_crash_with_buffered_changes {
  my $rows = sub {
    my ($from, $to) = @_;
    return "SET SESSION cte_max_recursion_depth = 1000000;
      INSERT INTO buffered (b) WITH RECURSIVE n (i) AS
        (SELECT $from UNION ALL SELECT i + 1 FROM n WHERE i < $to)
        SELECT SHA2(i, 256) FROM n";
  };
  start('--innodb-buffer-pool-size=256M') or die 'Cannot start';
  sql('CREATE TABLE buffered (a INT AUTO_INCREMENT PRIMARY KEY,
         b CHAR(64) CHARACTER SET latin1, KEY b (b));' . $rows->(1, 60000));
  sql('SET GLOBAL innodb_fast_shutdown = 0');
  stop();

  start('--innodb-buffer-pool-size=5M', '--innodb-change-buffering=all')
    or die 'Cannot start';
  sql($rows->(60001, 64000));
  crash();
  move('data', 'data.crashed');
}

sub check_buffered {
  my (@server_options) = @_;
  restore();
  start('--innodb-buffer-pool-size=128M', '--innodb-recovery-flush=BACKGROUND',
    @server_options) or die 'Cannot start';
  print(read_file($log) =~ /because the change buffer is not empty/
    ? 'All pages were written. ' : 'Pages were left. ');
  my ($success, $output) = client('SELECT COUNT(a) FROM buffered FORCE INDEX (PRIMARY)
      UNION ALL SELECT COUNT(b) FROM buffered FORCE INDEX (b); CHECK TABLE buffered',
    '--database=test -N');
  print($success && $output =~ /^64000\s+64000\s+test.buffered\s+check\s+status\s+OK\s*$/
    ? "The index is sound.\n" : "The index is damaged.\n");
  crash();
}

# Make a table with so many rows.
sub make_table {
  my ($name, $options, $n_rows) = @_;
  sql("CREATE TABLE $name (a INT NOT NULL, b VARCHAR(300) CHARACTER SET latin1,
         c CHAR(20), d INT, PRIMARY KEY (a), KEY b (b(60)), KEY cd (c, d)) $options;
       SET SESSION cte_max_recursion_depth = 1000000;
       INSERT INTO $name WITH RECURSIVE n (i) AS
         (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < $n_rows)
         SELECT 3 * i, SHA2(i, 512), LEFT(SHA2(i, 256), 12), i FROM n");
}

# Change few pages many times, with a table and an index that go in between. Nothing
# is compressed or encrypted, so pages can stay from batch to batch.
sub make_crash_with_hot_pages {
  @names = ('compact', 'dynamic', 'general', 'parts', 'redundant');
  start('--innodb-buffer-pool-size=256M') or die 'Cannot start';
  sql("CREATE TABLESPACE general ADD DATAFILE 'general.ibd'");
  foreach my $name (@names) {
    make_table($name,
      $name eq 'general' ? 'TABLESPACE general' : $tables{$name} // '', 2000);
  }
  # Whether pages are kept where a table is dropped is a matter of chance. So there
  # are several, at different places of the rounds.
  my @rounds_with_drop = (3 .. 10);
  make_table("gone$_", '', 20) foreach @rounds_with_drop;
  sql('SET GLOBAL innodb_fast_shutdown = 0');
  stop();

  # Which undo pages are used again depends on purge. It keeps up, everywhere.
  start('--innodb-buffer-pool-size=256M', '--innodb-purge-rseg-truncate-frequency=1')
    or die 'Cannot start';
  foreach my $n (1 .. 12) {
    foreach my $i (0 .. $#names) {
      sql("UPDATE $names[$i] SET b = SHA2(a + $n, 512),
             c = LEFT(SHA2(a - $n, 256), 12), d = d + 1");
      wait_for_purge();
      if ($i == 2 * $n % @names && grep { $n == $_ } @rounds_with_drop) {
        copy("data/test/gone$n.ibd", "gone$n.ibd");
        sql("UPDATE gone$n SET d = d + 1; DROP TABLE gone$n");
      }
    }
    sql('ALTER TABLE dynamic DROP KEY b; CREATE TABLE new LIKE compact;
         INSERT INTO new SELECT * FROM compact') if $n == 8;
  }
  push(@names, 'new');
  sql("CREATE TABLE late (a INT PRIMARY KEY, b CHAR(9));
       CREATE TABLE late_too (a INT PRIMARY KEY)");
  $sums_before = sql(sums());
  crash();
  # As if the server had died before it removed the file: only then is there
  # something to do for the record of that.
  move("gone$_.ibd", "data/test/gone$_.ibd") foreach @rounds_with_drop;
  # And before it had let the file of a new table grow.
  truncate('data/test/new.ibd', 7 * 16384) or die "Cannot truncate: $!";
  move('data', 'data.crashed');
}

sub wait_for_purge {
  my $left = "SELECT count FROM information_schema.innodb_metrics
                WHERE name = 'trx_rseg_history_len'";
  for (my $waited = 0;; $waited += 0.02) {
    my ($n_left) = sql($left) =~ /^(\d+)$/ or die 'The length of the history is not known';
    last if $n_left == 0;
    die 'Purge does not end' if $waited > 300;
    select(undef, undef, undef, 0.02);
  }
}

# A torn page of the file that redo lets grow, with a copy.
sub tear_page_of_growing_file {
  my $name = 'data/test/new.ibd';
  my $page = "\0" x 16384;
  my $lsn  = file_checkpoint('data') + 64;

  substr($page, 4, 4) = pack('N', 4);
  substr($page, 8, 8) = "\xFF" x 8;
  substr($page, 16, 8) = pack('Q>', $lsn);
  # An index page.
  substr($page, 24, 2) = pack('n', 17855);
  substr($page, 34, 4) = substr(page_of($name, 0), 34, 4);
  substr($page, 16380, 4) = pack('N', $lsn & 0xFFFFFFFF);
  my $sum = pack('N', checksum(substr($page, 4, 22))
      ^ checksum(substr($page, 38, 16384 - 38 - 8)));
  substr($page, 0, 4) = substr($page, 16376, 4) = $sum;
  overwrite($name, 4 * 16384, "\0" x 16384);
  foreach my $copy (grep { $_->{ibd} eq $name } copies()) {
    overwrite($copy->{file}, $copy->{offset}, "\0" x 16384);
  }
  my ($file) = sort(grep { -s $_ } glob('data/*.dblwr')) or die 'No doublewrite file';
  overwrite($file, 0, $page);
}

# How the pages of the last recovery came into the buffer pool, added up: pages read
# by runs, reads, and pages that were there from the batch before.
sub runs {
  my @sums = (0, 0, 0);
  my $text = read_file($log);
  while ($text =~ /Redo recovery: read (\d+) pages with (\d+) reads; (\d+) were/g) {
    $sums[0] += $1;
    $sums[1] += $2;
    $sums[2] += $3;
  }
  return @sums;
}

# Compare pages, and see that they were read by runs and, if so, kept; then redo of
# the next batches was asked for meanwhile.
sub compare_runs {
  my ($is_kept, @server_options) = @_;
  compare_pages(@server_options);
  my ($n_pages, $n_reads, $n_kept) = runs();
  die "$n_pages pages" if $n_pages < 500;
  # In a small pool blocks are waited for, and runs end there.
  my $is_small_pool = "@server_options" =~ /pool-size=5M/;
  my $are_few = $n_reads * ($is_small_pool ? 2 : 3) <= $n_pages;
  # A run also ends where its pages have 256 KiB of redo: in one batch, which has all
  # redo of these pages, that decides.
  if (!$is_kept && !$is_small_pool) {
    $are_few ||= $n_reads <= 1.5 * $n_redo_bytes / (256 * 1024);
  }
  die "$n_pages pages with $n_reads reads, $n_redo_bytes bytes of redo" if !$are_few;
  die "$n_kept pages were kept" if $is_kept ? $n_kept < 500 : $n_kept > 0;
  my $is_evicted = read_file($log) =~ /writing and evicting [1-9]\d* pages/;
  die 'Pages were ' . ($is_evicted ? '' : 'not ') . 'evicted' if $is_evicted xor $is_kept;
  my ($n_asked) = read_file($log) =~ /asked for (\d+) KiB of redo while pages/;
  die 'Redo was not asked for' if $is_kept && ($n_asked // 0) < 1024;
}

# CRC-32C, bit by bit.
sub checksum {
  my ($bytes) = @_;
  my $sum = 0xFFFFFFFF;

  foreach my $byte (unpack('C*', $bytes)) {
    $sum ^= $byte;
    $sum = $sum >> 1 ^ ($sum & 1 ? 0x82F63B78 : 0) foreach 1 .. 8;
  }
  return $sum ^ 0xFFFFFFFF;
}

# Make a group of records of redo unreadable: there is no record of the type 0x7E. The
# checksum of its block is right, or redo would end there. The records before it stay
# whole: one that ends in bytes like these may be parsed, and no server need survive
# its being applied.
sub break_redo {
  my ($lsn) = @_;

  foreach my $name (grep { /#ib_redo\d+$/ } glob('data/#innodb_redo/*')) {
    open(my $file, '+<:raw', $name) or die "Cannot open $name: $!";
    read($file, my $header, 16);
    my $offset = 2048 + $lsn - unpack('x8 Q>', $header);
    next if $offset < 2048 || $offset >= -s $name;
    $offset -= $offset % 512;
    seek($file, $offset, 0);
    while (read($file, my $block, 512) == 512) {
      my $begin = unpack('x6 n', $block);
      if ($begin >= 12 && $begin < 508) {
        $block = substr($block, 0, $begin) . "\x7E" x (508 - $begin);
        seek($file, $offset, 0);
        print $file $block . pack('N', checksum($block));
        close($file) or die "Cannot write $name: $!";
        return;
      }
      $offset += 512;
    }
  }
  die "No file has redo of $lsn";
}

# A start that finds out that it must not go on, when pages of a batch of redo have
# stayed, or were left to the page cleaners.
sub check_refusal {
  my ($what, @server_options) = @_;
  restore();
  if ($what eq 'redo') {
    break_redo(file_checkpoint('data') + 45 * 1024 * 1024);
  } else {
    remove('data/test/compact.ibd');
  }
  if (start(@server_options)) {
    print("The server starts.\n");
    crash();
    return;
  }
  my $text = read_file($log);
  die 'Pages neither stayed nor were left'
    unless (runs())[2] > 0 || $text =~ /[1-9]\d* changed pages are left/;
  my $reason = $what eq 'redo' ? qr/CORRUPT LOG RECORD FOUND/
    : qr/Could not find any file associated with the tablespace ID/;
  # After an assertion or a signal there is no such end.
  my $is_well = $text =~ $reason && $text =~ /MySQL Server - end/
    && $text !~ /Assertion failure|got signal/;
  print($is_well ? "The server refuses.\n" : "The server does not end well: $text\n");
}

# Leave pages whose redo goes on after they were written, by way of the doublewrite
# buffer. The last of the tables is made at the end of the redo, and as if its first
# page, which has its key, had not been written.
sub make_crash_with_pages_written_twice {
  @names = ('compact', 'dynamic', 'encrypted', 'redundant');
  start('--innodb-buffer-pool-size=256M') or die 'Cannot start';
  make_table($_, $tables{$_}, $n_rows) foreach @names;
  sql('SET GLOBAL innodb_fast_shutdown = 0');
  stop();

  start('--innodb-buffer-pool-size=256M') or die 'Cannot start';
  my $change = sub {
    my ($name) = @_;
    return "UPDATE $name SET b = CONCAT(b, REPEAT('y', a % 90)), d = d + 1;
         FLUSH TABLES $name FOR EXPORT;
         UNLOCK TABLES;
         UPDATE $name SET d = d + 1, c = UPPER(c);
         DELETE FROM $name WHERE a % 7 = 0";
  };
  sql($change->($_)) foreach @names;
  sql('CREATE TABLE last_one LIKE encrypted');
  my $first_page = substr(read_file('data/test/last_one.ibd'), 0, 16384);
  die 'The first page has a key' if $first_page =~ /lC[ABC]/;
  sql('INSERT INTO last_one SELECT a, LEFT(b, 200), c, d FROM compact;' . $change->('last_one'));
  push(@names, 'last_one');
  sql('CREATE TABLE late (a INT PRIMARY KEY, b CHAR(9));
       CREATE TABLE late_too (a INT PRIMARY KEY)');
  $sums_before = sql(sums());
  crash();
  overwrite('data/test/last_one.ibd', 0, $first_page);
  # 15 is the type of an encrypted page.
  die 'No copy of an encrypted page without a key'
    unless grep { $_->{ibd} =~ /last_one/ && unpack('n', substr($_->{page}, 24, 2)) == 15 }
    copies();
  foreach my $copy (copies()) {
    overwrite($copy->{file}, $copy->{offset}, "\0" x 16384)
      if $copy->{ibd} =~ /last_one/ && $copy->{page_no} == 0;
  }
  move('data', 'data.crashed');
}

# Leave undo tablespaces that were encrypted while they were used: pages are written
# encrypted, and the first one, which has the key, not. A small pool writes pages, the
# first ones as well, so that it is tried until two tablespaces are like that. Of one of
# them the doublewrite buffer keeps no encrypted page, as if others had been written since.
# MySQL's way must fail, as it does if there is redo enough before the key.
sub make_crash_with_encrypted_undo {
  my (@server_options) = @_;
  my $small = '--innodb-buffer-pool-size=5M';
  # 15 is the type of an encrypted page.
  my $is_encrypted = sub { return unpack('n', substr($_[0], 24, 2)) == 15; };
  my $lacking = sub {
    return grep {
      my $name = $_;
      page_of($name, 0) !~ /lC[ABC]/
        && grep { $is_encrypted->(page_of($name, $_)) } 1 .. -1 + (-s $name) / 16384
    } glob('data/undo_*'), glob('data/*.ibu');
  };
  @names = ('compact');
  start('--innodb-buffer-pool-size=256M') or die 'Cannot start';
  make_table('compact', $tables{compact}, $n_rows);
  sql(join('', map { "CREATE UNDO TABLESPACE u$_ ADD DATAFILE 'u$_.ibu';" } 1 .. 4)
    . 'CREATE TABLE late (a INT PRIMARY KEY, b CHAR(9));
       CREATE TABLE late_too (a INT PRIMARY KEY);
       SET GLOBAL innodb_fast_shutdown = 0');
  stop();
  move('data', 'data.base');

  for (my $n_tries = 1;; ++$n_tries) {
    die 'No such crash' if $n_tries > 20;
    rmtree('data.crashed');
    system('cp', '-a', '--sparse=always', 'data.base', 'data.crashed') == 0 or die 'Cannot copy';
    restore();
    start($small, @server_options) or die 'Cannot start';
    sql("UPDATE compact SET b = CONCAT(LEFT(b, 100), $_), d = d + 1") foreach 1 .. 8;
    sql('SET GLOBAL innodb_undo_log_encrypt = ON');
    for (my $n = 0; $n < 100 && $lacking->() < 2; ++$n) {
      sql("UPDATE compact SET d = d - 1, c = LOWER(c) WHERE a % 20 = $n % 20");
    }
    $sums_before = sql(sums());
    crash();
    my @lacking = $lacking->();
    my @copies = grep { my $copy = $_; $is_encrypted->($copy->{page}) && grep { $copy->{ibd} eq $_ } @lacking } copies();
    next if @lacking < 2 || !@copies;
    foreach my $copy (grep { $_->{ibd} ne $copies[0]{ibd} } @copies) {
      overwrite($copy->{file}, $copy->{offset}, "\0" x 16384);
    }
    rmtree('data.crashed');
    move('data', 'data.crashed');
    restore();
    if (start('--innodb-redo-recovery=STOCK', $small)) {
      crash();
    } elsif (read_file($log) =~ /Encryption key missing: space_id=\d+|Page decryption failed/) {
      last;
    }
  }
  rmtree('data.base');
}

# The copies of pages of tables, and of undo tablespaces, that doublewrite files have.
sub copies {
  my (%file_of, @copies);

  foreach my $name (glob('data/test/*.ibd'), glob('data/undo_*'), glob('data/*.ibu')) {
    open(my $file, '<:raw', $name) or die "Cannot read $name: $!";
    read($file, my $page, 42);
    $file_of{ unpack('N', substr($page, 38, 4)) } = $name;
  }
  foreach my $name (glob('data/*.dblwr')) {
    open(my $file, '<:raw', $name) or die "Cannot read $name: $!";
    for (my $offset = 0; read($file, my $page, 16384) == 16384; $offset += 16384) {
      my $ibd = $file_of{ unpack('N', substr($page, 34, 4)) } // next;
      push(@copies, { file => $name, offset => $offset, page => $page, ibd => $ibd,
          page_no => unpack('N', substr($page, 4, 4)) });
    }
  }
  return @copies;
}

# A page in a file.
sub page_of {
  my ($name, $page_no) = @_;
  open(my $file, '<:raw', $name) or die "Cannot open $name: $!";
  seek($file, $page_no * 16384, 0);
  read($file, my $page, 16384);
  return $page;
}

# Tear the pages that the doublewrite buffer has a copy of: as a power cut leaves them
# if one half is the new one, and the other is not.
sub tear_pages {
  my ($without) = @_;
  my %is_torn;

  foreach my $copy (copies()) {
    my ($ibd, $page_no) = @$copy{'ibd', 'page_no'};
    next if defined $without && $ibd =~ $without;
    # Without the first page MySQL wants others that are whole.
    next if $page_no == 0 && $ibd !~ /dynamic/;
    # An older copy of the page may be there, too.
    next if page_of($ibd, $page_no) ne $copy->{page};
    overwrite($ibd, $page_no * 16384 + 8192, "\x5A" x 8192);
    $is_torn{"$ibd:$page_no"} = 1;
  }
  die 'Too few pages are torn: ' . keys(%is_torn) if keys(%is_torn) < 100;
  return keys(%is_torn);
}

# As if the server had been killed after a clean shutdown and a start, before the first
# checkpoint: what the system tablespace says of the shutdown is the checkpoint's LSN. That
# recovery is needed is known when redo was read.
sub pretend_clean_shutdown {
  overwrite('data/ibdata1', 26, pack('Q>', file_checkpoint('data')));
}

# Damage the first page of the system tablespace. The doublewrite buffer has a copy of it,
# if wanted.
sub damage_first_page {
  my ($has_copy) = @_;
  my $page = page_of('data/ibdata1', 0);
  empty_copies();
  overwrite((glob('data/*.dblwr'))[-1], 16384, $page) if $has_copy;
  overwrite('data/ibdata1', 8192, "\x5A" x 8192);
}

# A copy of a page of nobody knows what, newer than all redo.
sub forge_copy {
  foreach my $name (glob('data/*.dblwr')) {
    my $page = page_of($name, 0);
    substr($page, 4, 4) = pack('N', 5);
    substr($page, 16, 8) = pack('Q>', 1 << 50);
    substr($page, 34, 4) = pack('N', 987654);
    overwrite($name, 0, $page);
  }
}

# Torn pages, and a server that is killed in its second batch or later, when the copies of some
# are gone. Encrypted ones are restored as in MySQL, so they are not torn here.
sub check_second_crash {
  foreach my $redo ('STOCK', 'PARALLEL') {
    my @server_options = ("--innodb-redo-recovery=$redo",
      '--innodb-buffer-pool-size=5M');
    my (@gone, $n_lost);
    # A machine may stand still for the moments between the second batch and the end,
    # or too few copies be overwritten yet, and MySQL may have restored all later.
    for (my ($n_tries, $is_enough) = (1, 0); !$is_enough; ++$n_tries) {
      die scalar(@gone) . ' copies are gone' if $n_tries > 20;
      restore();
      my @torn = tear_pages(qr/encrypted|last_one/);
      my $n_batches = sub { return scalar(() = read_file($log) =~ /Applying a batch of/g); };
      my $n_wanted = 2 + ($n_tries - 1) % 5;
      start_and_kill(sub { return $n_batches->() >= $n_wanted
          || read_file($log) =~ /ready for connections/; }, qr/ready for connections/,
        @server_options) or next;
      my %left = map { ("$_->{ibd}:$_->{page_no}" => 1) } copies();
      @gone = grep { !$left{$_} } @torn;
      $n_lost = grep { page_of(/(.*):(.*)/) =~ /\x5A{8192}$/ } @gone;
      $is_enough = @gone >= 10 && ($n_lost > 0 || $redo ne 'STOCK');
    }
    print("$redo: ", $n_lost ? 'Pages are lost. ' : 'No page is lost. ');
    if (start(@server_options)) {
      print_rows();
    } else {
      # The other is what MySQL says if a first page is lost.
      check_log('Redo cannot be applied to \d+ pages, for they cannot be read'
        . '|unrecoverable by double-write buffer');
      print("The server ends.\n");
    }
  }
}

# Give one page of a table, to which redo has to be applied, a wrong checksum, and no
# server a copy of it.
sub damage_page {
  my ($page) = grep { /^dynamic\.ibd:[1-9]\d$/ }
    differences(pages('data.crashed'), $recovered);
  my ($name, $page_no) = $page =~ /(.*):(\d+)/ or die 'No page';
  overwrite("data/test/$name", $page_no * 16384 + 16376, 'bad!');
  empty_copies();
}

# Doublewrite files of the same size without copies.
sub empty_copies {
  foreach my $file (glob('data/*.dblwr')) {
    my $n_bytes = -s $file;
    truncate($file, 0) && truncate($file, $n_bytes) or die "Cannot truncate: $!";
  }
}

# A page that redo has to be applied to cannot be read: a server ends, and says so.
sub check_damaged {
  foreach my $redo ('STOCK', 'PARALLEL') {
    restore();
    print("$redo: ");
    if (start("--innodb-redo-recovery=$redo")) {
      print("The server starts.\n");
      crash();
      next;
    }
    check_log('Database page corruption on disk');
    check_log('Redo cannot be applied to 1 pages, for they cannot be read: '
      . '\[page id: space=\d+, page number=\d+\]\. If');
    print("The server ends.\n");
    check_rows("--innodb-redo-recovery=$redo", '--innodb-force-recovery=1');
  }
}

# Make redo say that a backup program has left it.
sub make_backup {
  foreach my $name (grep { /#ib_redo\d+$/ } glob('data/#innodb_redo/*')) {
    open(my $file, '+<:raw', $name) or die "Cannot open $name: $!";
    read($file, my $block, 508) == 508 or die "$name is short";
    substr($block, 16, 32) = pack('a32', 'MEB 9.7.4');
    seek($file, 0, 0);
    print $file $block . pack('N', checksum($block));
    close($file) or die "Cannot write $name: $!";
  }
}

sub check_log {
  my ($pattern) = @_;
  my $n = () = read_file($log) =~ /$pattern/g;
  die "The log does not say $pattern:\n" . read_file($log) if $n == 0;
  return $n;
}

# A server that may not write refuses to recover, and opens after a recovery.
sub check_read_only {
  foreach my $redo ('STOCK', 'PARALLEL') {
    my @server_options = ("--innodb-redo-recovery=$redo",
      '--innodb-recovery-flush=BACKGROUND');
    restore();
    print("$redo: ");
    if (start('--innodb-read-only', @server_options)) {
      print("The server starts.\n");
      crash();
      next;
    }
    check_log("Can't initiate database recovery, running in read-only-mode");
    print('The server refuses. ');
    start(@server_options) or die 'Cannot start';
    stop();
    start('--innodb-read-only', @server_options) or die 'Cannot start';
    print_rows();
  }
}

# Leave a counter that is in redo alone: the row with its value is gone.
sub make_crash_with_counter {
  start() or die 'Cannot start';
  sql('CREATE TABLE counted (a BIGINT AUTO_INCREMENT PRIMARY KEY, b INT);
       INSERT INTO counted VALUES (1, 1)');
  sql('SET GLOBAL innodb_fast_shutdown = 0');
  stop();
  start() or die 'Cannot start';
  sql('INSERT INTO counted VALUES (123456789, 2);
       DELETE FROM counted WHERE b = 2');
  crash();
  move('data', 'data.crashed');
}

# The next value, also if the server is killed twice when it has opened.
sub check_counter {
  my (@server_options) = @_;
  foreach my $n_kills (0, 2) {
    restore();
    foreach my $n (1 .. $n_kills) {
      start(@server_options) or die 'Cannot start';
      crash();
    }
    start(@server_options) or die 'Cannot start';
    print($n_kills, ' kills: ', sql('INSERT INTO counted (b) VALUES (3);
      SELECT a FROM counted WHERE b = 3'));
    stop();
  }
}

# Records are left out or repeated, in a debug server.
sub compare_with_fault {
  my ($debug) = @_;
  my $stock = recovered('--innodb-redo-recovery=STOCK');
  my $other = recovered('--innodb-redo-recovery=PARALLEL', "--debug=d,$debug");
  print(differences($stock, $other) ? "Pages differ.\n" : "The same pages.\n");
}

1;
