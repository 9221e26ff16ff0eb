package main

func Example() {
	main()
	// Output:
	// the thread is waiting: next [review]
	//   task review: ended false, result <nil>, asks 1, error <nil>
	//     inside: next [ask], A stern letter to Ada!
	//   task stamp: ended true, result map[stamps:[stern]], asks 0, error <nil>
	//   stored: the checkpoint of step 1, and pending writes to [__interrupt__ stamps]
	// send it? "A stern letter to Ada!" false: refused
	// send it? "A kind letter to Ada!" true: sent: A kind letter to Ada!
	// step 4, next []: {To:Ada Tone:kind Status:sent: A kind letter to Ada! Stamps:[stern kind]}
	// step 3, next [review stamp]: {To:Ada Tone:kind Status:refused Stamps:[stern]}
	// step 2, next [choose]: {To:Ada Tone:stern Status:refused Stamps:[stern]}
	// step 1, next [review stamp]: {To:Ada Tone:stern Status: Stamps:[]}
	// step 0, next [choose]: {To:Ada Tone: Status: Stamps:[]}
	// step -1, next [__start__]: {To: Tone: Status: Stamps:[]}
	// forked, sent: A stern letter to Bob!
	// replayed, sent: A stern letter to Ada!
}
