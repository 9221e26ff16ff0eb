package main

func Example() {
	main()
	// Output:
	// What does she eat when she is hungry? map[]
	//   1.00 Ann likes spicy noodles and hot soup.
	//   0.45 Dinner at the hotel, after the flight.
	// holiday travel map[]
	//   1.00 The train to the sea leaves at nine.
	//   0.89 Dinner at the hotel, after the flight.
	// holiday travel map[year:map[$lt:2023]]
	//   1.00 The train to the sea leaves at nine.
	//   0.00 Ann likes spicy noodles and hot soup.
}
