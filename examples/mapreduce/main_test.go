package main

func Example() {
	main()
	// Output:
	// 2 words in "to be"
	// 4 words in "or not to be"
	// 2 words in "that is"
	// 3 lines counted
}
