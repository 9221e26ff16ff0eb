package main

func Example() {
	main()
	// Output:
	// result: [foo bar2]
	// config: 123 1f0f5200-24f1-6382-8000-bde4e02ab92b
	// checkpoint: v 4 1f0f5200-24f1-6382-8000-bde4e02ab92b updated [bar nodes]
	//   bar = "triggered by foo" at 00000000000000000000000000000002.0.3174924500871408
	//   foo = "triggered by user" at 00000000000000000000000000000001.0.06769883673554666
	//   nodes = ["foo"] at 00000000000000000000000000000002.0.3174924500871408
	//   seen by foo: 00000000000000000000000000000001.0.06769883673554666
	// metadata: {"parents":{},"source":"loop","step":0}
	// parent_config: 123 1f0f5200-24f1-6381-bfff-bde4e02ab92b
	// pending_writes:
	//   30b17cb1-76f1-3c5a-0d32-33f544fcabdf nodes ["bar2"]
	//   e126d089-c354-0ac8-bb9e-b12bbe3f20b8 __interrupt__ [{"value":"manual interrupt","id":"placeholder-id","response_schema":null}]
	// failed: node "bar3" (task eb44729d-9ec7-21ad-a84b-5bf7c6f41080): manually raised error at bar3
	// values: map[bar:<nil> foo:begin] next: [bar1 bar2 bar3]
	// interrupt: 06f130849be52be9df3d3673b3a553bb Manually be interrupted at bar2
	//   id: 307843f7-3c88-eb29-814d-c00be4d427d2 name: bar1 path: [__pregel_pull bar1] error: <nil> interrupts: 0 result: map[]
	//   id: 8face7b7-36d3-b5fe-9320-596c36ecfa79 name: bar2 path: [__pregel_pull bar2] error: <nil> interrupts: 1 result: <nil>
	//   id: eb44729d-9ec7-21ad-a84b-5bf7c6f41080 name: bar3 path: [__pregel_pull bar3] error: manually raised error at bar3 interrupts: 0 result: <nil>
	// values: map[foo:begin] next: [foo]
	//   id: 2927db9e-0498-ad7b-cc0b-5f50756153eb name: foo path: [__pregel_pull foo] error: <nil> interrupts: 0 result: map[bar:<nil>]
	// bar1: [__pregel_push 0 false]
	// bar2: [__pregel_push 1 false]
	// bar3: [__pregel_push 2 false]
	// checkpoint_ns: ""
	// task: main_node:63297804-c19d-66cb-e806-8473dc1727cb
	//   checkpoint_ns: "main_node:63297804-c19d-66cb-e806-8473dc1727cb"
	//   task: sub_node:6cdd3cde-179f-d195-9baf-1fb831e7ab04
}
