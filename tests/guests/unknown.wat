;; A command with an import that no host provides.
(component
  (import "acme:database/query@1.0.0" (instance (export "ask" (func (result u32)))))
  (core module $m (func (export "run") (result i32) (i32.const 0)))
  (core instance $i (instantiate $m))
  (func $run async (result (result)) (canon lift (core func $i "run")))
  (instance $r (export "run" (func $run)))
  (export "wasi:cli/run@0.3.0" (instance $r)))
