;; A WASI 0.2 command that prints its argv, one argument per line.
(component
  (import "wasi:cli/environment@0.2.0" (instance $environment
    (export "get-arguments" (func (result (list string))))))
  (import "wasi:io/error@0.2.0" (instance $error (export "error" (type (sub resource)))))
  (alias export $error "error" (type $error-resource))
  (import "wasi:io/streams@0.2.0" (instance $streams
    (export "output-stream" (type $output-stream (sub resource)))
    (alias outer 1 $error-resource (type $outer-error))
    (export "error" (type $e (eq $outer-error)))
    (type $failure (variant (case "last-operation-failed" (own $e)) (case "closed")))
    (export "stream-error" (type $stream-error (eq $failure)))
    (export "[method]output-stream.blocking-write-and-flush"
      (func (param "self" (borrow $output-stream)) (param "contents" (list u8)) (result (result (error $stream-error)))))))
  (alias export $streams "output-stream" (type $output-stream))
  (import "wasi:cli/stdout@0.2.0" (instance $stdout
    (alias outer 1 $output-stream (type $outer-stream))
    (export "output-stream" (type $o (eq $outer-stream)))
    (export "get-stdout" (func (result (own $o))))))
  (core module $libc
    (memory (export "memory") 2)
    (global $next (mut i32) (i32.const 4096))
    (func (export "realloc") (param i32 i32 i32 i32) (result i32) (local $at i32)
      (local.set $at (i32.and (i32.add (global.get $next) (i32.const 7)) (i32.const -8)))
      (global.set $next (i32.add (local.get $at) (local.get 3)))
      (local.get $at)))
  (core instance $libc (instantiate $libc))
  (core func $args (canon lower (func $environment "get-arguments") (memory $libc "memory") (realloc (func $libc "realloc"))))
  (core func $get (canon lower (func $stdout "get-stdout")))
  (core func $write
    (canon lower (func $streams "[method]output-stream.blocking-write-and-flush") (memory $libc "memory")))
  (core module $m
    (import "" "args" (func $args (param i32)))
    (import "" "get" (func $get (result i32)))
    (import "" "write" (func $write (param i32 i32 i32 i32)))
    (import "libc" "memory" (memory 1))
    (data (i32.const 16) "\n")
    (func (export "run") (result i32) (local $out i32) (local $at i32) (local $left i32)
      (local.set $out (call $get))
      (call $args (i32.const 32))
      (local.set $at (i32.load (i32.const 32)))
      (local.set $left (i32.load (i32.const 36)))
      (block $none
        (loop $next
          (br_if $none (i32.eqz (local.get $left)))
          (call $write (local.get $out) (i32.load (local.get $at)) (i32.load offset=4 (local.get $at)) (i32.const 64))
          (call $write (local.get $out) (i32.const 16) (i32.const 1) (i32.const 64))
          (local.set $at (i32.add (local.get $at) (i32.const 8)))
          (local.set $left (i32.sub (local.get $left) (i32.const 1)))
          (br $next)))
      (i32.load8_u (i32.const 64))))
  (core instance $i (instantiate $m
    (with "" (instance (export "args" (func $args)) (export "get" (func $get)) (export "write" (func $write))))
    (with "libc" (instance $libc))))
  (func $run (result (result)) (canon lift (core func $i "run")))
  (instance $r (export "run" (func $run)))
  (export "wasi:cli/run@0.2.0" (instance $r)))
