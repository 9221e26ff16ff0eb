package main

func Example() {
	main()
	// Output:
	// asked: improve "a first draft"
	// outside next [review], inside next [edit] with a first draft
	// published: a better text
}
