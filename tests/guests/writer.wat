;; A WASI 0.2 command that writes the files one.txt and two.txt in /workspace.
(component
  (import "wasi:filesystem/types@0.2.0" (instance $types
    (export "descriptor" (type $descriptor (sub resource)))
    (type $path-flags' (flags "symlink-follow"))
    (export "path-flags" (type $path-flags (eq $path-flags')))
    (type $open-flags' (flags "create" "directory" "exclusive" "truncate"))
    (export "open-flags" (type $open-flags (eq $open-flags')))
    (type $descriptor-flags' (flags "read" "write" "file-integrity-sync" "data-integrity-sync" "requested-write-sync" "mutate-directory"))
    (export "descriptor-flags" (type $descriptor-flags (eq $descriptor-flags')))
    (type $error-code' (enum "access" "would-block" "already" "bad-descriptor" "busy" "deadlock" "quota" "exist" "file-too-large"
      "illegal-byte-sequence" "in-progress" "interrupted" "invalid" "io" "is-directory" "loop" "too-many-links" "message-size"
      "name-too-long" "no-device" "no-entry" "no-lock" "insufficient-memory" "insufficient-space" "not-directory" "not-empty"
      "not-recoverable" "unsupported" "no-tty" "no-such-device" "overflow" "not-permitted" "pipe" "read-only" "invalid-seek"
      "text-file-busy" "cross-device"))
    (export "error-code" (type $error-code (eq $error-code')))
    (export "[method]descriptor.open-at" (func (param "self" (borrow $descriptor)) (param "path-flags" $path-flags) (param "path" string)
      (param "open-flags" $open-flags) (param "flags" $descriptor-flags) (result (result (own $descriptor) (error $error-code)))))
    (export "[method]descriptor.write" (func (param "self" (borrow $descriptor)) (param "buffer" (list u8)) (param "offset" u64)
      (result (result u64 (error $error-code)))))))
  (alias export $types "descriptor" (type $descriptor))
  (import "wasi:filesystem/preopens@0.2.0" (instance $preopens
    (alias outer 1 $descriptor (type $outer-descriptor))
    (export "descriptor" (type $d (eq $outer-descriptor)))
    (export "get-directories" (func (result (list (tuple (own $d) string)))))))
  (core module $libc
    (memory (export "memory") 1)
    (global $next (mut i32) (i32.const 4096))
    (func (export "realloc") (param i32 i32 i32 i32) (result i32) (local $at i32)
      (local.set $at (i32.and (i32.add (global.get $next) (i32.const 7)) (i32.const -8)))
      (global.set $next (i32.add (local.get $at) (local.get 3)))
      (local.get $at)))
  (core instance $libc (instantiate $libc))
  (core func $get (canon lower (func $preopens "get-directories") (memory $libc "memory") (realloc (func $libc "realloc"))))
  (core func $open (canon lower (func $types "[method]descriptor.open-at") (memory $libc "memory")))
  (core func $write (canon lower (func $types "[method]descriptor.write") (memory $libc "memory")))
  (core module $m
    (import "" "get" (func $get (param i32)))
    (import "" "open" (func $open (param i32 i32 i32 i32 i32 i32 i32)))
    (import "" "write" (func $write (param i32 i32 i32 i64 i32)))
    (import "libc" "memory" (memory 1))
    (data (i32.const 16) "one.txt")
    (data (i32.const 32) "two.txt")
    (data (i32.const 48) "new text\n")
    ;; Finds the folder whose name is as long as /workspace; 0 if there is none.
    (func $workspace (result i32) (local $at i32) (local $left i32)
      (call $get (i32.const 64))
      (local.set $at (i32.load (i32.const 64)))
      (local.set $left (i32.load (i32.const 68)))
      (block $none
        (loop $next
          (br_if $none (i32.eqz (local.get $left)))
          (if (i32.eq (i32.load offset=8 (local.get $at)) (i32.const 10)) (then (return (i32.load (local.get $at)))))
          (local.set $at (i32.add (local.get $at) (i32.const 12)))
          (local.set $left (i32.sub (local.get $left) (i32.const 1)))
          (br $next)))
      (i32.const 0))
    ;; Creates or truncates a file and writes the text; returns 1 on failure.
    (func $put (param $folder i32) (param $name i32) (result i32)
      (call $open (local.get $folder) (i32.const 0) (local.get $name) (i32.const 7) (i32.const 9) (i32.const 2) (i32.const 80))
      (if (i32.load8_u (i32.const 80)) (then (return (i32.const 1))))
      (call $write (i32.load (i32.const 84)) (i32.const 48) (i32.const 9) (i64.const 0) (i32.const 96))
      (i32.load8_u (i32.const 96)))
    (func (export "run") (result i32) (local $folder i32)
      (local.set $folder (call $workspace))
      (if (i32.eqz (local.get $folder)) (then (return (i32.const 1))))
      (i32.or (call $put (local.get $folder) (i32.const 16)) (call $put (local.get $folder) (i32.const 32)))))
  (core instance $i (instantiate $m
    (with "" (instance (export "get" (func $get)) (export "open" (func $open)) (export "write" (func $write))))
    (with "libc" (instance $libc))))
  (func $run (result (result)) (canon lift (core func $i "run")))
  (instance $r (export "run" (func $run)))
  (export "wasi:cli/run@0.2.0" (instance $r)))
