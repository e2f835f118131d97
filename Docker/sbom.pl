#!/usr/bin/perl
# Copyright (c) 2026, the Redstart authors. GPL-2.0-only.
# The packages of a Debian root as an SPDX 2.3 document, from what dpkg knows. Perl, since the image has it for the
# server's own scripts and has no Python.
#
#   sbom.pl ROOT NAME VERSION >FILE
#
# SOURCE_DATE_EPOCH is the document's time if it is set. Licences are not in it: dpkg does not know them.
use strict;
use warnings;

use Digest::SHA qw(sha1_hex);
use Encode qw(decode encode FB_CROAK LEAVE_SRC);
use JSON::PP;
use POSIX qw(strftime);

my ($root, $name, $version) = @ARGV;
die "usage: sbom.pl ROOT NAME VERSION\n" unless @ARGV == 3;

sub content {
  my ($path) = @_;
  open my $file, '<:raw', $path or die "$path: $!\n";
  local $/;
  return scalar <$file>;
}

# The packages that are installed, in the order of their names, each with its fields. Of a field that has several lines
# only the first counts.
sub packages {
  my ($status) = @_;
  my @found;
  for my $paragraph (split /\n\n+/, $status) {
    my %field = $paragraph =~ /^([\w-]+):[ \t]*(.*)$/mg;
    push @found, \%field if ($field{Status} // '') =~ / installed$/;
  }
  return sort { $a->{Package} cmp $b->{Package} || $a->{Architecture} cmp $b->{Architecture} } @found;
}

# A part of a package URL.
sub escaped {
  my ($text) = @_;
  return encode('UTF-8', $text) =~ s/([^A-Za-z0-9.~_-])/sprintf '%%%02X', ord $1/ger;
}

my $status = content("$root/var/lib/dpkg/status");
my %system = content("$root/etc/os-release") =~ /^(\w+)="?([^"\n]*)"?$/mg;
my @packages = packages(decode('UTF-8', $status, FB_CROAK | LEAVE_SRC));
die "$root/var/lib/dpkg/status: no package is installed\n" unless @packages;

my (@described, @relationships, %seen);
for my $package (@packages) {
  my $id = "SPDXRef-Package-$package->{Package}-$package->{Architecture}" =~ s/[^A-Za-z0-9.-]/./gr;
  $id .= '.' while $seen{$id}++;
  # Only what Debian has made is found under its name.
  my $is_ours = $package->{Package} =~ /^redstart-/;
  my $kind = $is_ours ? 'generic' : "deb/$system{ID}";
  my $question = "arch=$package->{Architecture}" . ($is_ours ? '' : "&distro=$system{ID}-$system{VERSION_ID}");
  my $source = $package->{Source} // $package->{Package};
  $source .= " ($package->{Version})" unless $source =~ / \(/;
  push @described, {
    SPDXID => $id,
    name => $package->{Package},
    versionInfo => $package->{Version},
    downloadLocation => 'NOASSERTION',
    filesAnalyzed => JSON::PP::false,
    supplier => 'Organization: ' . ($package->{Maintainer} =~ s/<(.*)>/($1)/r),
    sourceInfo => "built from the source package $source",
    ($package->{Homepage} ? (homepage => $package->{Homepage}) : ()),
    ($is_ours ? (licenseDeclared => 'GPL-2.0-only') : ()),
    externalRefs => [{
      referenceCategory => 'PACKAGE-MANAGER',
      referenceType => 'purl',
      referenceLocator => "pkg:$kind/" . escaped($package->{Package}) . '@' . escaped($package->{Version}) . "?$question",
    }],
  };
  push @relationships, { spdxElementId => 'SPDXRef-Image', relationshipType => 'CONTAINS', relatedSpdxElement => $id };
}

# The same packages make the same name; it has the form of a UUID that is made of a hash.
my @hex = sha1_hex("$name\n$version\n$status") =~ /^(.{8})(.{4}).(.{3}).(.{3})(.{12})/;
my $document = {
  spdxVersion => 'SPDX-2.3',
  dataLicense => 'CC0-1.0',
  SPDXID => 'SPDXRef-DOCUMENT',
  name => "$name-$version",
  documentNamespace => "urn:uuid:$hex[0]-$hex[1]-5$hex[2]-8$hex[3]-$hex[4]",
  creationInfo => {
    created => strftime('%Y-%m-%dT%H:%M:%SZ', gmtime($ENV{SOURCE_DATE_EPOCH} || time)),
    creators => ['Tool: redstart-sbom'],
  },
  packages => [
    {
      SPDXID => 'SPDXRef-Image',
      name => $name,
      versionInfo => $version,
      downloadLocation => 'NOASSERTION',
      filesAnalyzed => JSON::PP::false,
      primaryPackagePurpose => 'CONTAINER',
    },
    @described,
  ],
  relationships => [
    { spdxElementId => 'SPDXRef-DOCUMENT', relationshipType => 'DESCRIBES', relatedSpdxElement => 'SPDXRef-Image' },
    @relationships,
  ],
};
print JSON::PP->new->utf8->canonical->pretty->indent_length(1)->encode($document);
