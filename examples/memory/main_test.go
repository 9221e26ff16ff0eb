package main

func Example() {
	main()
	// Output:
	// monday, ann: "Hi" Hello! We have not met.
	// monday, ann: "I like soup" Noted: soup.
	// tuesday, ann: "I like chess" Noted: chess.
	// -- the process ends, another begins --
	// friday, ann: "Hi" Hello! You like chess and soup.
	// friday, bob: "Hi" Hello! We have not met.
}
