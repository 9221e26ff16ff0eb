package main

func Example() {
	main()
	// Output:
	// step 2, next []: map[joke:a joke about cats topic:cats]
	// step 1, next [write]: map[topic:cats]
	// step 0, next [choose]: map[topic:]
	// step -1, next [__start__]: map[]
	// forked: a joke about dogs
	// replayed: a joke about cats
}
