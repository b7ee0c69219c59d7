;; A WASI 0.2 command that prints one line.
(component
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
  (core module $libc (memory (export "memory") 1))
  (core instance $libc (instantiate $libc))
  (core func $get (canon lower (func $stdout "get-stdout")))
  (core func $write
    (canon lower (func $streams "[method]output-stream.blocking-write-and-flush") (memory $libc "memory")))
  (core module $m
    (import "" "get" (func $get (result i32)))
    (import "" "write" (func $write (param i32 i32 i32 i32)))
    (import "libc" "memory" (memory 1))
    (data (i32.const 16) "hello from 0.2\n")
    (func (export "run") (result i32)
      (call $write (call $get) (i32.const 16) (i32.const 15) (i32.const 64))
      (i32.load8_u (i32.const 64))))
  (core instance $i (instantiate $m
    (with "" (instance (export "get" (func $get)) (export "write" (func $write))))
    (with "libc" (instance $libc))))
  (func $run (result (result)) (canon lift (core func $i "run")))
  (instance $r (export "run" (func $run)))
  (export "wasi:cli/run@0.2.0" (instance $r)))
