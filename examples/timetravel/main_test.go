package main

func Example() {
	main()
	// Output:
	// step 2, next []: {Topic:cats Text:a joke about cats}
	// step 1, next [write]: {Topic:cats Text:}
	// step 0, next [choose]: {Topic: Text:}
	// step -1, next [__start__]: {Topic: Text:}
	// forked: a joke about dogs
	// replayed: a joke about cats
}
