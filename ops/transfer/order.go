package transfer

import (
	"cmp"
	"container/heap"
	"slices"
)

// Node is a checkpoint of one namespace, for ParentsFirst.
type Node struct {
	ID, Parent string
	Data       any // the caller's
}

// ParentsFirst sorts the checkpoints of one namespace so that each comes after its parent,
// and otherwise by id. LangGraph's ids grow with time, but other programs' need not. A
// checkpoint whose parent is not there has none. Of checkpoints that are their own ancestors,
// one comes before its parent.
func ParentsFirst(nodes []Node) []Node {
	byID := make(map[string]int, len(nodes))
	for i, n := range nodes {
		byID[n.ID] = i
	}
	children := make(map[int][]int, len(nodes))
	ready := &smallest{nodes: nodes}
	for i, n := range nodes {
		if p, ok := byID[n.Parent]; ok && p != i && n.Parent != "" {
			children[p] = append(children[p], i)
		} else {
			ready.at = append(ready.at, i)
		}
	}
	heap.Init(ready)
	sorted, done := make([]Node, 0, len(nodes)), make([]bool, len(nodes))
	drain := func() {
		for ready.Len() > 0 {
			i := heap.Pop(ready).(int)
			if done[i] {
				continue
			}
			done[i] = true
			sorted = append(sorted, nodes[i])
			for _, c := range children[i] {
				heap.Push(ready, c)
			}
		}
	}
	drain()
	// The rest are cycles, and their descendants.
	rest := slices.DeleteFunc(indexes(len(nodes)), func(i int) bool { return done[i] })
	slices.SortFunc(rest, func(a, b int) int { return cmp.Compare(nodes[a].ID, nodes[b].ID) })
	for _, i := range rest {
		if !done[i] {
			heap.Push(ready, inCircle(nodes, byID, i))
			drain()
		}
	}
	return sorted
}

func indexes(n int) []int {
	all := make([]int, n)
	for i := range all {
		all[i] = i
	}
	return all
}

// inCircle is a node that is its own ancestor, and an ancestor of i or i itself. There must be
// one.
func inCircle(nodes []Node, byID map[string]int, i int) int {
	seen := map[int]bool{}
	for !seen[i] {
		seen[i] = true
		i = byID[nodes[i].Parent]
	}
	return i
}

// smallest is a heap of indexes of nodes, the smallest id on top.
type smallest struct {
	nodes []Node
	at    []int
}

// Len implements heap.Interface.
func (s *smallest) Len() int { return len(s.at) }

// Less implements heap.Interface.
func (s *smallest) Less(i, j int) bool { return s.nodes[s.at[i]].ID < s.nodes[s.at[j]].ID }

// Swap implements heap.Interface.
func (s *smallest) Swap(i, j int) { s.at[i], s.at[j] = s.at[j], s.at[i] }

// Push implements heap.Interface. x is an index.
func (s *smallest) Push(x any) { s.at = append(s.at, x.(int)) }

// Pop implements heap.Interface.
func (s *smallest) Pop() any {
	x := s.at[len(s.at)-1]
	s.at = s.at[:len(s.at)-1]
	return x
}
