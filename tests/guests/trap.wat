;; A command that traps in a function whose name contains terminal escape sequences.
(component
  (core module $m
    (func $"\1b[31mred" unreachable)
    (func (export "run") (result i32) (call $"\1b[31mred") (i32.const 0)))
  (core instance $i (instantiate $m))
  (func $run async (result (result)) (canon lift (core func $i "run")))
  (instance $r (export "run" (func $run)))
  (export "wasi:cli/run@0.3.0" (instance $r)))
