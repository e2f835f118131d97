# ==== Purpose ====
#
# Leave a data directory with much redo, recover copies of it with each value of
# innodb_redo_recovery, and compare them page by page. tablespace_check.pl runs the
# servers.
#
# ==== Usage ====
#
# Within a perl block, after initialize():
#
#   require "$ENV{MYSQL_TEST_DIR}/suite/innodb/include/redo_recovery.pl";
#   make_crash($sql);             # executed before the load
#   compare_pages(@server_options);     # as often as wanted, each time the same crash
#   check_rows(@server_options);  # the same
#   kill_in_recovery(@options);   # the same
#   forget_crash();
#   damage_and_compare();
#   skip_and_compare();           # of a debug server
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

# The rows of all tables.
sub sums {
  return join(' UNION ALL ', map {
      "SELECT '$_', COUNT(*), SUM(a), SUM(CRC32(CONCAT_WS('-', b, c, d))) FROM $_"
    } @names) . ';CHECK TABLE ' . join(', ', @names);
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
    sql("CREATE TABLE $name (a INT NOT NULL, b VARCHAR(300) CHARACTER SET latin1,
           c CHAR(20), d INT, PRIMARY KEY (a), KEY b (b(60)), KEY cd (c, d))
           $tables{$name};
         SET SESSION cte_max_recursion_depth = 1000000;
         INSERT INTO $name WITH RECURSIVE n (i) AS
           (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 3000)
           SELECT 3 * i, SHA2(i, 512), LEFT(SHA2(i, 256), 12), i FROM n");
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
  $sums_before = sql(sums());
  crash();
  move('data', 'data.crashed');
}

# Begin with the crash again.
sub restore {
  rmtree('data');
  system('cp', '-a', '--sparse=always', 'data.crashed', 'data') == 0
    or die 'Cannot copy';
}

sub forget_crash {
  rmtree('data');
  move('data.crashed', 'data');
  start('--innodb-buffer-pool-size=256M') or die 'Cannot start';
  sql('DROP TABLE ' . join(', ', @names));
  stop();
}

# All pages of the tables, of the system tablespace and of the undo tablespaces. Not
# of mysql.ibd, which the server itself writes at each start.
sub pages {
  my ($home) = @_;
  my %pages;

  foreach my $file (glob("$home/test/*.ibd"), glob("$home/undo_*"),
    "$home/ibdata1") {
    my $n_bytes = $file =~ /compressed/ ? 8192 : 16384;
    my ($name) = $file =~ m{([^/]+)$};
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

# Batches of the last recovery.
my $n_batches;

# Recover without rollback and purge.
sub recovered {
  my (@server_options) = @_;
  restore();
  start('--innodb-force-recovery=3', @server_options) or die 'Cannot start';
  stop();
  my $n_pages = 0;
  $n_pages += $_ foreach read_file($log) =~ /Applying a batch of (\d+) redo/g;
  die "Redo for $n_pages pages only" if $n_pages < $n_least_pages;
  my ($n_used) = read_file($log) =~ /used them again (\d+) times/;
  my $is_parallel = grep(/PARALLEL/, @server_options);
  die 'Objects of indexes were used again ' . ($n_used // 0) . ' times'
    if $is_parallel ? ($n_used // 0) < 10000 : defined $n_used;
  $n_batches = () = read_file($log) =~ /Applying a batch of/g;
  return pages('data');
}

sub compare_pages {
  my (@server_options) = @_;
  my $stock    = recovered('--innodb-redo-recovery=STOCK', @server_options);
  my $n_batches_of_stock = $n_batches;
  my $parallel = recovered('--innodb-redo-recovery=PARALLEL', @server_options);
  my $n_changed = differences(pages('data.crashed'), $stock);
  my @differences = differences($stock, $parallel);

  if ($n_changed < $n_least_pages) {
    print("Only $n_changed pages were recovered.\n");
  } elsif (@differences) {
    print(scalar(@differences) . " pages differ: @differences[0 .. min($#differences, 20)]\n");
  } else {
    print("The same pages");
    print($n_batches < $n_batches_of_stock ? ", in fewer batches.\n" : ".\n");
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
  start(@server_options) or die 'Cannot start';
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

# Updates in place are left out, in a debug server.
sub skip_and_compare {
  my $stock = recovered('--innodb-redo-recovery=STOCK');
  my $other = recovered('--innodb-redo-recovery=PARALLEL',
    '--debug=d,redo_recovery_skip_record');
  print(differences($stock, $other) ? "Pages differ.\n" : "The same pages.\n");
}

1;
