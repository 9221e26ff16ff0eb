package main

func Example() {
	main()
	// Output:
	// waiting: pay Ada? 500
	// stored, next: [approve]
	// answered true: paid to Ada
	// waiting: pay Ada? 500
	// stored, next: [approve]
	// answered false: refused
}
