package main

func Example() {
	main()
	// Output:
	// -- sync, asks: false
	// put called with checkpoint for step -1
	// node 'foo1' is called.
	// node 'foo2' is called.
	// put_writes called with writes bar1: [foo1]
	// put called with checkpoint for step 0, with writes bar2: [foo2]
	// node 'bar1' is called.
	// node 'bar2' is called.
	// put_writes called with writes output: [bar1]
	// put called with checkpoint for step 1, with writes output: [bar2]
	// result: [bar1 bar2] waiting: 0
	// -- async, asks: false
	// node 'foo1' is called.
	// node 'foo2' is called.
	// node 'bar1' is called.
	// node 'bar2' is called.
	// put called with checkpoint for step -1
	// put_writes called with writes bar1: [foo1]
	// put called with checkpoint for step 0, with writes bar2: [foo2]
	// put_writes called with writes output: [bar1]
	// put called with checkpoint for step 1, with writes output: [bar2]
	// result: [bar1 bar2] waiting: 0
	// -- exit, asks: false
	// node 'foo1' is called.
	// node 'foo2' is called.
	// node 'bar1' is called.
	// node 'bar2' is called.
	// put called with checkpoint for step 1
	// result: [bar1 bar2] waiting: 0
	// -- exit, asks: true
	// node 'foo1' is called.
	// node 'foo2' is called.
	// node 'bar1' is called.
	// node 'bar2' is called.
	// put called with checkpoint for step 0
	// put_writes called with writes __interrupt__: …
	// put_writes called with writes output: [bar2]
	// result: [bar2] waiting: 1
}
