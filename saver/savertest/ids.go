package savertest

import "fmt"

// groups are the groups of behaviours with the numbers of their last ID.
var groups = []struct {
	name string
	last int
	more []int // further numbers; SAV-05 to SAV-08 need a graph engine
}{
	{name: "CHK", last: 19},
	{name: "WRT", last: 9},
	{name: "LST", last: 13},
	{name: "DEL", last: 8},
	{name: "DLH", last: 10},
	{name: "SAV", last: 4, more: []int{9}},
	{name: "SER", last: 12},
}

// ids lists every registered ID in order.
func ids() []string {
	var all []string
	for _, g := range groups {
		for n := 1; n <= g.last; n++ {
			all = append(all, fmt.Sprintf("%s-%02d", g.name, n))
		}
		for _, n := range g.more {
			all = append(all, fmt.Sprintf("%s-%02d", g.name, n))
		}
	}
	return all
}
