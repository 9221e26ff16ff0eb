package pregel

import (
	"fmt"
	"math"
	"testing"
)

// A set of tasks finds them whether it is small or large, and a task that is
// added again takes the place of the old one.
func TestTaskSet(t *testing.T) {
	for _, n := range []int{1, fewTasks, fewTasks + 1, 100} {
		s := &taskSet{}
		for i := range n {
			s.add(&task{id: fmt.Sprint(i)})
		}
		again := &task{id: fmt.Sprint(n / 2), name: "again"}
		s.add(again)
		for i := range n {
			if got := s.get(fmt.Sprint(i)); got != s.order[i] || got == nil {
				t.Errorf("of %d: task %d is %v", n, i, got)
			}
		}
		if len(s.order) != n || s.get(again.id) != again || s.get("none") != nil {
			t.Errorf("of %d: %d in order", n, len(s.order))
		}
	}
	var none *taskSet
	if none.get("0") != nil {
		t.Error("found in nothing")
	}
}

// The stored path of a packet is that of its Path.
func TestSendPathString(t *testing.T) {
	for _, i := range []int{0, 7, 999, 1_234_567_890, math.MaxInt} {
		if got, want := sendPathString(i), sendPath(i).String(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

func TestUUIDParsing(t *testing.T) {
	for text, ok := range map[string]bool{
		"1f00fd5f-2039-6354-8001-2c508c8dffd9": true, "1f00fd5f2039635480012c508c8dffd9": true, "1F00FD5F-2039-6354-8001-2C508C8DFFD9": true,
		"": false, "1f00fd5f-2039-6354-8001-2c508c8dffd": false, "1f00fd5f-2039-6354-8001-2c508c8dffd90": false, "zf00fd5f-2039-6354-8001-2c508c8dffd9": false,
	} {
		if _, got := parseUUID(text); got != ok {
			t.Errorf("%q: %v", text, got)
		}
	}
}
