#!/bin/sh
# Installs skillhost on Linux. Run with --help for the options.
set -eu

# Verifies the signature of the manifest.
public_key() {
  cat <<'KEY'
@PUBLIC_KEY@
KEY
}

usage() {
  cat <<'USAGE'
Install skillhost below a folder, without root privileges

Usage: install.sh [--prefix DIR] [--from DIR|URL] [--uninstall]

  --prefix DIR      install into bin and share of this folder [default: ~/.local]
  --from DIR|URL    the folder or HTTPS address with manifest.json and the archive
                    [default: the folder of this script]
  --uninstall       remove what this script installed; policy, audit log and the
                    state of skills stay

The script verifies the signature of the manifest with a key of its own, then the
digest of the archive, before it unpacks anything. An upgrade replaces the program at
once and keeps all state. It needs openssl (3.0 or later), sha256sum, tar and zstd,
and for an address curl.
USAGE
}

fail() {
  printf 'error: %s\n' "$1" >&2
  if [ $# -gt 1 ]; then printf '  help: %s\n' "$2" >&2; fi
  exit 1
}

need() {
  for tool in "$@"; do
    command -v "$tool" >/dev/null 2>&1 ||
      fail "$tool is not installed" "for example: apt install $tool"
  done
}

main() {
  prefix=${HOME:+$HOME/.local}
  from=
  action=install
  while [ $# -gt 0 ]; do
    case $1 in
      --prefix | --from)
        [ $# -gt 1 ] || fail "$1 needs a value"
        if [ "$1" = --prefix ]; then prefix=$2; else from=$2; fi
        shift
        ;;
      --uninstall) action=uninstall ;;
      -h | --help) usage && exit 0 ;;
      *) fail "unknown option $1" "install.sh --help lists the options" ;;
    esac
    shift
  done
  [ -n "$prefix" ] || fail "HOME is not set" "name a folder: --prefix DIR"
  case $prefix in /*) ;; *) prefix=$(pwd)/$prefix ;; esac
  list=$prefix/share/skillhost/installed-files
  if [ "$action" = uninstall ]; then uninstall; else install; fi
}

install() {
  need openssl sha256sum tar zstd
  [ "$(uname -s)" = Linux ] || fail "skillhost runs on Linux, and this is $(uname -s)"
  machine=$(uname -m)
  case $machine in arm64) machine=aarch64 ;; amd64) machine=x86_64 ;; esac
  if [ -z "$from" ]; then
    from=$(dirname -- "$0")
    [ -f "$from/manifest.json" ] ||
      fail "there is no manifest.json beside this script" "name a folder or an address: --from https://..."
  fi
  mkdir -p "$prefix" || fail "cannot create $prefix"
  # In the prefix, so that the last steps only rename.
  new=$(mktemp -d "$prefix/.skillhost-install.XXXXXX") || fail "cannot write to $prefix"
  trap 'rm -rf "$new"' EXIT
  trap 'exit 130' INT
  trap 'exit 143' TERM HUP

  fetch manifest.json
  fetch manifest.json.sig
  public_key >"$new/key.pem"
  openssl pkeyutl -verify -pubin -inkey "$new/key.pem" -rawin -in "$new/manifest.json" \
    -sigfile "$new/manifest.json.sig" >"$new/openssl.log" 2>&1 ||
    fail "the signature of manifest.json is not valid: $from may have been altered" \
      "if openssl is older than 3.0, upgrade it: $(openssl version)"

  line=$(grep "^{\"kind\":\"tarball\",\"machine\":\"$machine\"," "$new/manifest.json") ||
    fail "there is no archive for $machine"
  archive=$(printf '%s\n' "$line" | sed 's/.*"file":"\([^"/]*\)".*/\1/')
  digest=$(printf '%s\n' "$line" | sed 's/.*"sha256":"\([0-9a-f]*\)".*/\1/')
  version=$(sed -n 's/^"version":"\([^"]*\)",$/\1/p' "$new/manifest.json")
  fetch "$archive"
  found=$(sha256sum "$new/$archive" | cut -d ' ' -f 1)
  [ "$found" = "$digest" ] ||
    fail "the digest of $archive is $found, and not $digest: it was altered or is incomplete"

  mkdir "$new/files"
  zstd -dc -q "$new/$archive" | tar -xf - -C "$new/files" --no-same-owner ||
    fail "cannot unpack $archive; is the disk full?"
  rm -f "$new/$archive"
  # A pipe hides that the first command failed.
  [ -x "$new/files/bin/skillhost" ] && "$new/files/bin/skillhost" --version >/dev/null ||
    fail "the program does not run on this machine"
  (cd "$new/files" && find . -type f ! -path './share/skillhost/*' | sed 's|^\./||' | sort) \
    >"$new/files/share/skillhost/installed-files"

  mkdir -p "$prefix/bin" "$prefix/share/skillhost" "$new/old"
  while read -r file; do
    [ "$file" != bin/skillhost ] || continue
    mkdir -p "$(dirname "$prefix/$file")"
    mv -f "$new/files/$file" "$prefix/$file"
  done <"$new/files/share/skillhost/installed-files"
  # The folder may also hold the state of skills, so only its parts are replaced.
  trap 'restore; rm -rf "$new"' EXIT
  for part in "$new"/files/share/skillhost/*; do
    name=${part##*/}
    if [ -e "$prefix/share/skillhost/$name" ]; then
      mv "$prefix/share/skillhost/$name" "$new/old/$name"
    fi
    mv "$part" "$prefix/share/skillhost/$name"
  done
  mv -f "$new/files/bin/skillhost" "$prefix/bin/skillhost"
  trap 'rm -rf "$new"' EXIT

  printf 'skillhost %s is installed: %s\n' "$version" "$prefix/bin/skillhost"
  case :$PATH: in
    *":$prefix/bin:"*) ;;
    *) printf '%s\n' "$prefix/bin is not on your PATH" ;;
  esac
}

# Puts the parts of the old version back.
restore() {
  for part in "$new"/old/*; do
    [ -e "$part" ] || continue
    rm -rf "$prefix/share/skillhost/${part##*/}"
    mv "$part" "$prefix/share/skillhost/${part##*/}"
  done
}

# Copies a file of the release to the folder $new.
fetch() {
  case $from in
    # A name before @ could make another host look like this machine.
    *://*@*) fail "$from contains a user name" "leave out what is before the @" ;;
    https://* | http://localhost[:/]* | http://127.0.0.1[:/]* | 'http://[::1]'[:/]*)
      need curl
      case $from in http://*) protocols='=http' ;; *) protocols='=https' ;; esac
      curl -fsSL --proto "$protocols" --proto-redir "$protocols" -o "$new/$1" "${from%/}/$1" ||
        fail "cannot fetch ${from%/}/$1"
      ;;
    http://*) fail "$from is not encrypted" "use an https:// address" ;;
    *://*) fail "$from is neither a folder nor an https:// address" ;;
    *) cp -- "$from/$1" "$new/$1" || fail "cannot copy $from/$1" ;;
  esac
}

uninstall() {
  [ -f "$list" ] || fail "skillhost is not installed below $prefix by this script" \
    "name the folder: --prefix DIR"
  while read -r file; do
    case $file in /* | *..*) fail "$list is damaged: $file" ;; esac
    rm -f "$prefix/$file"
  done <"$list"
  for part in compiled javascript-packages plugins python-packages skills; do
    rm -rf "$prefix/share/skillhost/$part"
  done
  rm -f "$prefix"/share/skillhost/*.wasm "$prefix"/share/skillhost/*.json "$list"
  # If the prefix is ~/.local, the folder may hold the state of skills, which stays.
  rmdir "$prefix/share/skillhost" 2>/dev/null || true
  printf 'skillhost is uninstalled from %s\n' "$prefix"
}

main "$@"
