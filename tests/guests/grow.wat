;; A command that allocates 1 GiB of memory, or traps.
(component
  (core module $m
    (memory 0)
    (func (export "run") (result i32)
      (if (i32.eq (memory.grow (i32.const 16384)) (i32.const -1)) (then unreachable))
      (i32.const 0)))
  (core instance $i (instantiate $m))
  (func $run async (result (result)) (canon lift (core func $i "run")))
  (instance $r (export "run" (func $run)))
  (export "wasi:cli/run@0.3.0" (instance $r)))
