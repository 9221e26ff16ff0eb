package main

func Example() {
	main()
	// Output:
	// waiting for: send ["Dear Ada"]?
	// done: [Dear Ada approved: yes]
}
