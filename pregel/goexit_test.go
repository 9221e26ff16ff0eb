package pregel_test

import "runtime"

func goexit() { runtime.Goexit() }
