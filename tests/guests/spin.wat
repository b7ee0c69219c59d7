;; A command that never ends and never waits.
(component
  (core module $m (func (export "run") (result i32) (loop $again (br $again)) (i32.const 0)))
  (core instance $i (instantiate $m))
  (func $run async (result (result)) (canon lift (core func $i "run")))
  (instance $r (export "run" (func $run)))
  (export "wasi:cli/run@0.3.0" (instance $r)))
