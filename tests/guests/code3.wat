;; A WASI 0.3 command that exits with code 3.
(component
  (import "wasi:cli/exit@0.3.0" (instance $exit (export "exit-with-code" (func (param "status-code" u8)))))
  (core func $exit' (canon lower (func $exit "exit-with-code")))
  (core module $m
    (import "" "exit" (func $exit (param i32)))
    (func (export "run") (result i32) (call $exit (i32.const 3)) (i32.const 0)))
  (core instance $i (instantiate $m (with "" (instance (export "exit" (func $exit'))))))
  (func $run async (result (result)) (canon lift (core func $i "run")))
  (instance $r (export "run" (func $run)))
  (export "wasi:cli/run@0.3.0" (instance $r)))
