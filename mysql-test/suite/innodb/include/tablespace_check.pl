# ==== Purpose ====
#
# Run a server on a data directory of its own once for each setting of
# innodb_tablespace_check_*, and compare what comes of it: whether the server
# starts, what it writes to the error log, what a client sees. In the first
# setting everything is OFF, so that all others are compared with the original
# way of checking the files.
#
# ==== Usage ====
#
# Within a perl block:
#
#   require "$ENV{MYSQL_TEST_DIR}/suite/innodb/include/tablespace_check.pl";
#   initialize();                          # make the data directory
#   run('CREATE TABLE t1 (a INT)');        # put something into it
#   compare('The file of t1 is missing',   # a line for the result file
#           sql    => 'SELECT * FROM t1',  # what a client asks
#           before => sub { remove('data/test/t1.ibd'); });
#   finish();
#
# The current directory holds the data directory, "data", and whatever else a
# test needs. compare() makes a fresh copy of it for each setting. A server that
# refuses to start, or ends by itself, is an outcome like any other.
#
# ==== References ====
#
# Bug#115988, Bug#116716

use strict;
use warnings;
use Cwd;
use File::Copy ();
use File::Path;
use IO::Socket::UNIX;
use POSIX ':sys_wait_h';

# fadvise, light, threads; further options, if any.
our @all_settings = (
  ['OFF', 'OFF', 0],
  ['ON',  'OFF', 0],
  ['OFF', 'ON',  0],
  ['ON',  'ON',  0],
  ['OFF', 'OFF', 4],
  ['ON',  'ON',  1],
  ['ON',  'ON',  4],
  ['ON',  'ON',  256]);

# Enough where the number of threads makes no difference.
our @few_settings = @all_settings[0 .. 3];

# Seconds to wait for a server.
my $timeout = 300;

my $home      = "$ENV{MYSQL_TMP_DIR}/tablespace_check";
my $origin    = "$home.origin";
my $log       = "$home.err";
my $socket    = "$ENV{MYSQL_TMP_DIR}/check.sock";
my $start_dir = getcwd();

my $server  = $ENV{MYSQLD};
my @keyring;    # options of every server that has a keyring
my @options;    # those of every server
my @wrapper;    # the program that runs it, if any
my $pid;        # of the server

sub write_file {
  my ($name, $text) = @_;
  open(my $file, '>', $name) or die "Cannot write $name: $!";
  print $file $text;
  close($file) or die "Cannot write $name: $!";
}

sub read_file {
  my ($name) = @_;
  open(my $file, '<', $name) or return '';
  local $/;
  my $text = <$file>;
  return defined $text ? $text : '';
}

sub remove {
  foreach my $name (@_) {
    unlink($name) or die "Cannot remove $name: $!";
  }
}

sub move {
  my ($from, $to) = @_;
  rename($from, $to) or die "Cannot move $from to $to: $!";
}

sub copy {
  my ($from, $to) = @_;
  File::Copy::copy($from, $to) or die "Cannot copy $from to $to: $!";
}

sub shorten {
  my ($name, $n_bytes) = @_;
  -s $name > $n_bytes or die "$name is not that long";
  truncate($name, $n_bytes) or die "Cannot truncate $name: $!";
}

sub overwrite {
  my ($name, $offset, $bytes) = @_;
  open(my $file, '+<', $name) or die "Cannot open $name: $!";
  binmode($file);
  seek($file, $offset, 0) or die "Cannot seek in $name: $!";
  print $file $bytes;
  close($file) or die "Cannot write $name: $!";
}

# Where the type of page 0, the two copies of the tablespace ID and the flags
# stand in a file.
our $PAGE_TYPE   = 24;
our $PAGE_ID     = 34;
our $SPACE_ID    = 38;
our $SPACE_FLAGS = 54;

# Without the map, which would spare the reads that are looked at.
sub command_line {
  return (
    $server, '--no-defaults', "--datadir=$home/data",
    "--lc-messages-dir=$ENV{MYSQL_SHAREDIR}", @keyring,
    "--log-error=$log", '--log-error-verbosity=3',
    "--socket=$socket", "--pid-file=$home/pid",
    '--skip-networking', '--loose-skip-mysqlx', '--tls-version=',
    '--skip-log-bin', '--secure-file-priv=NULL',
    '--loose-innodb-tablespace-map=OFF',
    '--innodb-buffer-pool-size=24M', '--innodb-redo-log-capacity=8M',
    '--innodb-flush-method=nosync', '--innodb-buffer-pool-load-at-startup=OFF',
    '--innodb-buffer-pool-dump-at-shutdown=OFF',
    $> == 0 ? '--user=root' : (), @options);
}

# Start a server. Returns whether it accepts connections; if not, it has ended.
sub start {
  my (@more) = @_;

  unlink($socket, "$socket.lock", $log);
  $pid = fork();
  die "Cannot fork: $!" unless defined $pid;

  if ($pid == 0) {
    exec(@wrapper, command_line(), @more) or POSIX::_exit(127);
  }

  for (my $waited = 0; $waited < $timeout; $waited += 0.02) {
    return 1 if IO::Socket::UNIX->new(Peer => $socket);

    if (waitpid($pid, WNOHANG) == $pid) {
      undef $pid;
      return 0;
    }

    select(undef, undef, undef, 0.02);
  }

  crash();
  die "The server neither starts nor ends:\n" . read_file($log);
}

# Run servers by means of another program.
sub set_wrapper { @wrapper = @_; }

# Let a client execute SQL. Returns whether all went well, and the output, of
# which errors are a part.
sub client {
  my ($sql, $more) = @_;

  write_file("$home.sql", $sql);
  system("$ENV{MYSQL} --user=root --protocol=socket --socket=$socket"
      . " $more < $home.sql > $home.out 2>&1");
  my $success = $? == 0;
  my $output  = read_file("$home.out");
  unlink("$home.sql", "$home.out");

  return ($success, $output);
}

# Shut the server down.
sub stop {
  client('SHUTDOWN', '');
  waitpid($pid, 0);
  undef $pid;
  die "The server did not shut down:\n" . read_file($log) if $? != 0;
}

# Kill the server.
sub crash {
  kill('KILL', $pid);
  waitpid($pid, 0);
  undef $pid;
}

# Start a server, and kill it as soon as something is true. Returns whether that
# was before its log said something.
sub start_and_kill {
  my ($is_time, $too_late, @more) = @_;

  unlink($socket, "$socket.lock", $log);
  $pid = fork();
  die "Cannot fork: $!" unless defined $pid;

  if ($pid == 0) {
    exec(@wrapper, command_line(), @more) or POSIX::_exit(127);
  }

  for (my $waited = 0; !$is_time->(); $waited += 0.02) {
    die "It is never time to kill the server:\n" . read_file($log)
      if $waited > $timeout || waitpid($pid, WNOHANG) == $pid;
    select(undef, undef, undef, 0.02);
  }

  crash();
  return read_file($log) !~ $too_late;
}

# Give all servers from now on a keyring in a file. The manifest belongs beside
# the server and the configuration beside the component, where tests that run at
# the same time have theirs; so these servers have a program and a directory of
# components of their own.
sub use_keyring {
  my ($path) = @_;
  my $programs  = "$home.programs";
  my $plugins   = "$home.plugins";
  my $component = 'component_keyring_file';
  my ($plugin_dir) = $ENV{KEYRING_FILE_COMPONENT_OPT} =~ /=(.*)/;

  rmtree([ $programs, $plugins ]);
  mkdir($_) or die "Cannot make $_: $!" foreach $programs, $plugins;

  $server = "$programs/mysqld";
  if (!link($ENV{MYSQLD}, $server)) {
    copy($ENV{MYSQLD}, $server);
    chmod(0755, $server);
  }
  write_file("$programs/mysqld.my", qq({ "components": "file://$component" }));
  foreach (glob("$plugin_dir/component_*.so")) {
    my ($name) = /([^\/]*)$/;
    symlink($_, "$plugins/$name") or die "Cannot link to $_: $!";
  }
  write_file("$plugins/$component.cnf",
    qq({ "path": "$path", "read_only": false }));
  @keyring = ("--plugin-dir=$plugins");
}

# Make a data directory. Parameters: options of all servers from now on.
sub initialize {
  @options = @_;
  clean_up();
  mkdir($home) or die "Cannot make $home: $!";
  chdir($home) or die "Cannot enter $home: $!";
  write_file('init.sql', "CREATE DATABASE test;\n");
  system(command_line(), '--initialize-insecure', "--init-file=$home/init.sql")
    == 0 or die "Cannot initialize:\n" . read_file($log);
  unlink('init.sql');
}

# Start a server, execute SQL, which must succeed, and stop the server.
sub run {
  my ($sql) = @_;

  start() or die "Cannot start:\n" . read_file($log);
  my ($success, $output) = client($sql, '--database=test');
  stop();
  die $output unless $success;
}

# Start a server, execute SQL, which must succeed, and kill the server before
# it has written any page that the SQL changed.
sub run_and_crash {
  my ($sql) = @_;

  start('--innodb-idle-flush-pct=0', '--innodb-max-dirty-pages-pct-lwm=0')
    or die "Cannot start:\n" . read_file($log);
  my ($success, $output) = client($sql, '--database=test');
  crash();
  die $output unless $success;
}

# The part of the error log that tells what became of the files, without what
# differs from one start to the next. Threads write in any order.
sub log_lines {
  my @lines;

  foreach my $line (split(/\n/, read_file($log))) {
    push(@lines, "The server ended by signal $1.")
      if $line =~ /mysqld got signal (\d+)/;
    # A rollback writes its percentage without a line of its own, so that the next
    # message of any thread stands behind it.
    $line =~ s/^(?:InnoDB: Progress in percents:)?(?: \d+)*(?=\d{4}-\d\d-\d\dT)//;
    next unless $line =~ s/^\S+Z \d+ // && $line =~ /\[InnoDB\]|\[ERROR\]/;
    # The number of threads and their progress.
    next if $line =~ /threads to scan|Thread# |Checked \d+/;
    # Times, the machine, what happens in the background, how redo was divided.
    next if $line =~ /Time taken|took \d+ms|NUMA|priority|purge|Start-up/;
    next if $line =~ /Rollback of trx with id \d+(?: completed|: read)|Redo recovery: /;
    next if $line =~ /Applying a batch of \d+ redo log records|Apply batch completed/;
    next if $line =~ /\[InnoDB\] [\d.]+%/;

    $line =~ s/\Q$home\E/HOME/g;
    $line =~ s/failure: .*/failure/;
    # Debug builds say where they gave up.
    $line =~ s/ at \w+\.cc\[\d+\]//;
    push(@lines, $line);
  }

  return sort @lines;
}

# The lines that are worth a place in a result file: what was found wrong.
sub print_log {
  my %times;

  foreach my $line (@_) {
    next if $line =~ /^\[(Note|System)\]/ && $line !~ /space ID check|hidden/
      && $line !~ /Ignoring '|Can't determine|Chosen space/;
    # Depends on which pages were written before a crash.
    next if $line =~ /Doublewrite page/;

    (my $short = $line) =~ s/\[MY-\d+\] |\s+$//g;
    $short =~ s/http\S+/URL/;
    $short =~ s/\b(space|page number)=\d+/$1=N/g;
    ++$times{$short};
  }

  foreach (sort(keys(%times))) {
    print($times{$_} > 1 ? "$_ ($times{$_} times)\n" : "$_\n");
  }
}

# What is in one list of lines and not in the other.
sub only_in {
  my ($list, $other) = @_;
  my %count;
  ++$count{$_} foreach @$other;
  return grep { --$count{$_} < 0 } @$list;
}

# Start the server with each setting, and compare. Parameters:
#   before    changes the copy of the directory
#   sql       what a client executes; it goes on after errors
#   options   further options of the server
#   settings  list of settings, by default all of them; a setting can also be a
#             list of options
#   after     returns more text that is part of the outcome
sub compare {
  my ($title, %arg) = @_;
  my @settings = $arg{settings} ? @{ $arg{settings} } : @all_settings;
  my (@first_log, @first_seen);

  print("# $title\n");

  chdir($start_dir);
  move($home, $origin) unless -d $origin;

  foreach my $setting (@settings) {
    my ($fadvise, $light, $threads, @extra) = @$setting;
    my @variables = $fadvise =~ /^--/ ? @$setting : (
      "--innodb-tablespace-check-fadvise=$fadvise",
      "--innodb-tablespace-check-light=$light",
      "--innodb-tablespace-check-threads=$threads", @extra);

    copy_origin();
    $arg{before}->() if $arg{before};

    my @seen;

    if (start(@variables, $arg{options} ? @{ $arg{options} } : ())) {
      @seen = ('The server starts.');
      if ($arg{sql}) {
        my ($success, $output) = client($arg{sql}, '--database=test --force');
        push(@seen, split(/\n/, $output));
      }
      push(@seen, split(/\n/, $arg{after}->())) if $arg{after};
      crash();
    } else {
      @seen = ('The server does not start.');
      push(@seen, split(/\n/, $arg{after}->())) if $arg{after};
    }

    my @log = log_lines();
    s/\Q$home\E/HOME/g foreach @seen;

    my $name = $fadvise =~ /^--/ ? "@$setting:"
      : "fadvise $fadvise, light $light, threads $threads"
      . join('', map { ", $_" } @extra) . ':';

    if ($setting == $settings[0]) {
      @first_log  = @log;
      @first_seen = @seen;
      print("$name\n");
      print_log(@log);
      print("$_\n") foreach @seen;
      next;
    }

    my @less = only_in([ @first_log, @first_seen ], [ @log, @seen ]);
    my @more = only_in([ @log, @seen ], [ @first_log, @first_seen ]);

    print("$name ", @less || @more ? 'DIFFERENT' : 'same', "\n");
    print("- $_\n") foreach @less;
    print("+ $_\n") foreach @more;
  }

  print("\n");
}

# The same as often as it is needed: after compare(), the next SQL finds a copy of
# what run() left.
sub copy_origin {
  chdir($start_dir);
  rmtree($home);
  system('cp', '-a', $origin, $home) == 0 or die "Cannot copy $origin";
  chdir($home) or die "Cannot enter $home: $!";
}

# Undo what compare() did: the next SQL finds the data directory as run() left
# it.
sub continue_from_origin {
  chdir($start_dir);
  rmtree($home);
  move($origin, $home);
  chdir($home) or die "Cannot enter $home: $!";
}

# Remove all that was made.
sub clean_up {
  chdir($start_dir);
  rmtree([ $home, $origin ]);
  unlink($log, $socket, "$socket.lock");
}

sub finish {
  clean_up();
  rmtree([ "$home.programs", "$home.plugins" ]);
}

# A test that fails leaves no server behind.
END {
  crash() if defined $pid;
}

1;
