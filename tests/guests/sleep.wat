;; A command that sleeps for an hour.
(component
  (import "wasi:clocks/monotonic-clock@0.3.0" (instance $clock (export "wait-for" (func async (param "how-long" u64)))))
  (core func $wait (canon lower (func $clock "wait-for")))
  (core module $m
    (import "" "wait" (func $wait (param i64)))
    (func (export "run") (result i32) (call $wait (i64.const 3600000000000)) (i32.const 0)))
  (core instance $i (instantiate $m (with "" (instance (export "wait" (func $wait))))))
  (func $run async (result (result)) (canon lift (core func $i "run")))
  (instance $r (export "run" (func $run)))
  (export "wasi:cli/run@0.3.0" (instance $r)))
