# ==== Purpose ====
#
# Tell from the files of the tablespace map and of its journal whether the next start
# trusts them. The formats are described in fil0mapfile.cc and fil0journal.cc.
#
# ==== References ====
#
# Bug#79025, Bug#115988

use strict;
use warnings;

# A hang guard: the map is left alone for up to three minutes after it was written, and
# may have to be written some times.
my $seconds = 1500;

sub wait_until {
  my ($is_true, $why_not) = @_;
  for (my $waited = 0; !$is_true->(); $waited += 0.1) {
    die $why_not->(), "\n" if $waited > $seconds;
    select(undef, undef, undef, 0.1);
  }
}

# The content of a file, or nothing.
sub content {
  my ($path) = @_;
  return unless -f $path && open(my $file, '<:raw', $path);
  return do { local $/; <$file> };
}

# Inode and times of a directory, in words.
sub identity {
  my ($inode, @times) = @_;
  return join(' ', $inode, map {
      sprintf('%d.%09d', $_ / 1000000000, $_ % 1000000000)
    } @times);
}

# What the journal of a map says of directories: by root and path, inode and times,
# and whether all changes have ended.
sub journal_directories {
  my ($path, $map_id) = @_;
  my $journal = content($path) // '';
  my %dirs;
  return %dirs if length($journal) < 20 || unpack('x8 Q>', $journal) != $map_id;
  $journal = substr($journal, 20);
  while (length($journal) > 8) {
    my $length = unpack('L>', $journal);
    last if $length + 8 > length($journal);
    my ($kind, $rest) = unpack('C a*', substr($journal, 8, $length));
    $journal = substr($journal, 8 + $length);
    if ($kind == 2 || $kind == 3) {
      my ($no, $root, $dir, undef, $flag, undef, $inode, $mtime, $ctime) =
        unpack('Q> L> L>/a L>/a C Q>4', $rest);
      my $known = $dirs{"$root:$dir"} //= {open => {}};
      if ($kind == 2) {
        $known = $dirs{"$root:$dir"} = {open => {}, whole => 1, name => $dir} if $flag;
        $known->{open}{$no} = 1;
      } else {
        delete($known->{open}{$no});
        $known->{identity} = identity($inode, $mtime, $ctime);
        $known->{name} = $dir;
      }
    } elsif ($kind == 4) {
      my ($root, $dir) = unpack('L> L>/a', $rest);
      $dirs{"$root:$dir"}{lost} = 1;
      $dirs{"$root:$dir"}{name} = $dir;
    }
  }
  return %dirs;
}

# What the journal of a map knows it by.
sub map_id {
  my ($map) = @_;
  return unpack('x24 L>', $map) << 32 | (length($map) & 0xffffffff);
}

# Whether the journal of a map has anything, 0 or 1.
sub has_journal {
  my ($path) = @_;
  my %journal = journal_directories("$path.log", map_id(content($path)));
  return %journal ? 1 : 0;
}

# The directories of a map and its journal: path under the root, inode and times, and
# whether it is trusted. Empty if there is no map, or if it may lack DDL: a server says
# so from its start until it has compared the map.
sub map_directories {
  my ($path) = @_;
  my $map = content($path);
  return unless defined($map);
  my ($offset, $length, $is_behind) = unpack('x8 Q> Q> x28 L>', $map);
  return if $is_behind;
  my $summary = substr($map, $offset, $length);
  my %journal = journal_directories("$path.log", map_id($map));
  my $take = sub {
    my @values = unpack("$_[0] a*", $summary);
    $summary = pop(@values);
    return @values;
  };

  # Configuration, whether it is clean, path of the temporary file; undo
  # tablespaces; largest ID; tablespaces that each start opens, and encrypted ones.
  $take->('L>/a C L>/a');
  $take->('L> L>/a') foreach 1 .. ($take->('L>'))[0];
  $take->('L> L>/(L>) L>/(L>)');

  my @dirs = map {
    my ($root, $name, undef, $inode, $mtime, $ctime, $is_trusted) =
      $take->('L> L>/a Q>4 C L>2');
    my $journal = delete($journal{"$root:$name"});
    $journal
      ? [ $name, $journal->{identity} // '?',
          $is_trusted && !$journal->{lost} && !%{$journal->{open}} ]
      : [ $name, identity($inode, $mtime, $ctime), $is_trusted == 1 ]
  } 1 .. ($take->('L>'))[0];
  push(@dirs, map {
      [ $_->{name}, $_->{identity} // '?',
        $_->{whole} && !$_->{lost} && !%{$_->{open}} ]
    } grep { $_->{whole} || $_->{lost} } values(%journal));
  return @dirs;
}

# The directories below a root that hold tables: path under it, inode and times.
sub directories_on_disk {
  my ($root) = @_;
  my @found = `cd "$root" && find -L . -mindepth 2 -name '*.ibd' \\
    -printf '%h\\n' | sort -u | xargs -r -d '\\n' stat -L -c '%n|%i %.9Y %.9Z'`;
  return map { m{^\./(.*)\|(.*)$} or die $_; [ $1, $2 ] } @found;
}

# Wait until the map has all directories with tables as they are, and trusts them.
# Parameters: the data directory, the other roots, and a pattern of directories
# that cannot be trusted.
sub wait_until_settled {
  my ($datadir, $roots, $untrusted) = @_;
  my @roots = ($datadir, split(/;/, $roots // ""));
  my @missing;

  wait_until(
    sub {
      my @known = map_directories("$datadir/#innodb_tablespace_map");
      my %is_known = map { ($_->[1] => 1) } @known;
      # The roots change when the map is written. If another directory is not
      # trusted, the map will be written once more.
      @missing = ((grep { !$_->[2] && $_->[0] !~ /^(#innodb_redo|)$/ } @known),
        grep { !$is_known{$_->[1]} } map { directories_on_disk($_) } @roots);
      @missing = grep { $_->[0] !~ /^(?:$untrusted)$/ } @missing if $untrusted;
      return @known && !@missing;
    },
    sub { join("\n", 'Not trusted:', map { "$_->[0]: $_->[1]" } @missing) });
}

# Wait until the map is another file than the one that has the other name, too.
# Removes that name.
sub wait_for_new_map {
  my ($map, $before) = @_;
  my $inode = (stat($before))[1] or die "No file $before";
  wait_until(
    sub { my @now = stat($map); return @now && $now[1] != $inode; },
    sub { 'The map was not written' });
  unlink($before) or die "Cannot remove $before: $!";
}

1;
