package pregel

import (
	"slices"
	"testing"
	"time"

	"github.com/stele-go/stele/pregel/internal/answer"
)

const postCheckpoint = "1f0f5200-24f1-6382-8000-bde4e02ab92b"

func mustTaskIDs(t *testing.T, cp string, format, step int) *taskIDs {
	t.Helper()
	ids, err := newTaskIDs(cp, format, step)
	if err != nil {
		t.Fatal(err)
	}
	return &ids
}

// The vectors are LangGraph's own: ids printed by its documentation, stored by
// its releases, or computed by them for the inputs shown.
func TestPulledTaskIDs(t *testing.T) {
	const (
		a = "1f00fd5f-2039-6354-8001-2c508c8dffd9"
	)
	for _, v := range []struct {
		cp       string
		format   int
		step     int
		ns, node string
		triggers []string
		want     string
	}{
		{postCheckpoint, 4, 1, "bar1", "bar1", []string{"bar"}, "e126d089-c354-0ac8-bb9e-b12bbe3f20b8"},
		{postCheckpoint, 4, 1, "bar2", "bar2", []string{"bar"}, "30b17cb1-76f1-3c5a-0d32-33f544fcabdf"},
		{"1f00fd5f-2036-6ce4-bfff-ac42e9890362", 4, 0, "__start__", "__start__", []string{"__start__"}, "a9e2a749-9870-1952-0a6c-b23b6729ffda"},
		{"1f00fd5f-2038-613e-8000-ce5ebe65eb97", 4, 1, "rewrite_query", "rewrite_query", []string{"branch:to:rewrite_query"}, "d1c3a2d6-5ca2-d4c5-5217-35d86cce48a4"},
		{a, 4, 2, "analyzer_one", "analyzer_one", []string{"branch:to:analyzer_one"}, "4e7cb70b-7e0f-52d0-d8aa-5439bd3f84de"},
		{a, 4, 2, "retriever_two", "retriever_two", []string{"branch:to:retriever_two"}, "abcbc448-cfba-ac2b-2e39-346808f20add"},
		{"1f00fd5f-213c-6940-8002-a28f475a6478", 4, 3, "retriever_one", "retriever_one", []string{"branch:to:retriever_one"}, "a5602426-85f2-1fe4-c9e4-bd0127e8e53e"},
		{"1f00fd5f-2140-6fd6-8003-2051ce36b79c", 4, 4, "qa", "qa", []string{"branch:to:qa"}, "2430f303-da9f-2e3e-738c-2e8ea28e8973"},
		{"1f00fe48-515c-679e-8003-5f85a56d5dba", 4, 4, "qa", "qa", []string{"branch:to:qa", "retriever_one"}, "4ee8637e-0a95-285e-75bc-4da721c0beab"},
		{"1f00fe48-5058-6a46-8000-086bffc73797", 4, 1, "rewrite_query", "rewrite_query", []string{"branch:to:rewrite_query", "start:rewrite_query"}, "058cf6d6-a83c-6509-b398-5dde0b6c5773"},
		{"1f00fe48-515b-6d12-8002-82a8f9213eae", 4, 3, "retriever_one", "retriever_one", []string{"analyzer_one", "branch:to:retriever_one"}, "16295c56-f44e-31fa-8fad-fff3f9022629"},
		{postCheckpoint, 4, 0, "main:9f7c900b-0d56-927c-17fb-5d519cc85678|sub_node", "sub_node", []string{"start"}, "929f60c7-3999-ab63-937a-e014df442787"},
		{postCheckpoint, 4, 3, "n", "n", []string{"b", "a"}, "3ddb3950-fdc3-feb9-4cdd-38aec4fe3abd"},
		{"1f00ffbe-5368-6c0a-bfff-ac22bea4c512", 1, 0, "__start__", "__start__", []string{"__start__"}, "aa8c5e8a-da6f-ccb1-f8a9-3b145cdfe7a4"},
		{"1f00ffbe-5369-6de4-8000-70bd3810f0ca", 1, 1, "rewrite_query", "rewrite_query", []string{"start:rewrite_query"}, "3bb470dd-9bf8-6216-b5fb-e50162991da1"},
		{"1f00ffbe-536a-6dca-8001-c7e021a73244", 1, 2, "analyzer_one", "analyzer_one", []string{"rewrite_query"}, "88757475-bc8c-934c-7d18-921cb2d94864"},
		{"1f00ffbe-536a-6dca-8001-c7e021a73244", 1, 2, "retriever_two", "retriever_two", []string{"branch:rewrite_query:rewrite_query_then:retriever_two"}, "53c60600-588b-e49e-a9d2-bbcbf30a7497"},
		{"1f00ffbe-5466-61ac-8003-7ec684cd12cc", 1, 4, "qa", "qa", []string{"retriever_one"}, "369e94b1-77d1-d67a-ab59-23d1ba20ee73"},
	} {
		triggers := slices.Sorted(slices.Values(v.triggers))
		if got := mustTaskIDs(t, v.cp, v.format, v.step).pulled(v.ns, v.node, triggers); got != v.want {
			t.Errorf("task of %s at %s step %d = %s, want %s", v.node, v.cp, v.step, got, v.want)
		}
	}
}

func TestPushedTaskIDs(t *testing.T) {
	at0, at1 := mustTaskIDs(t, postCheckpoint, 4, 0), mustTaskIDs(t, postCheckpoint, 4, 1)
	for name, c := range map[string]struct{ got, want string }{
		"send":    {at1.sent("bar1", "bar1", 0), "3db21006-55d4-1f4c-fd86-b1783aa6aa91"},
		"call":    {at0.called("main:9f7c900b-0d56-927c-17fb-5d519cc85678|t1", "t1", pullPath("main"), 0), "044925af-f969-825b-04e3-cbbef79859d4"},
		"handler": {at1.handling("bar1:x|__error_handler__bar1", "__error_handler__bar1", "e126d089-c354-0ac8-bb9e-b12bbe3f20b8"), "76888316-e180-ca19-088f-85415d5dbc9a"},
	} {
		if c.got != c.want {
			t.Errorf("%s: id %s, want %s", name, c.got, c.want)
		}
	}
}

func TestInterruptIDs(t *testing.T) {
	for ns, want := range map[string]string{
		"": "99aa06d3014798d86001c324468d497f",
		"bar2:794fffda-2e6c-0685-0d44-3ed6c57ca366":                                               "26f309d618c42ff31d2b3404369232e4",
		"bar1:e126d089-c354-0ac8-bb9e-b12bbe3f20b8":                                               "67bf77a3f24954956ce81bcd5120235b",
		"main:9f7c900b-0d56-927c-17fb-5d519cc85678|sub_node:929f60c7-3999-ab63-937a-e014df442787": "6531752c4d60334ae17e4816e23fdfe4",
	} {
		if got := answer.ID(ns, 0); got != want || !answer.IsID(got) {
			t.Errorf("interrupt id of %q = %s, want %s", ns, got, want)
		}
	}
	if first, second := answer.ID("n:x", 0), answer.ID("n:x", 1); first == second || second != hexHash("n:x|1") {
		t.Errorf("the second interrupt of a task has id %s, the first %s", second, first)
	}
}

func TestNameBasedIDs(t *testing.T) {
	for name, want := range map[string]string{
		chInterrupt: "99f19393-9204-5730-ae5d-02e7d962ec7d",
		Input:       "55efe74a-be40-5553-b175-4ec24502f625",
	} {
		if got, err := uuid5(postCheckpoint, name); err != nil || got != want {
			t.Errorf("uuid5(%s) = %s, %v; want %s", name, got, err, want)
		}
	}
	if got := exitDeltaTaskID(1, "4f7226e4-0270-bf16-1ef8-fb321bef9f3d"); got != "00000001-0270-bf16-1ef8-fb321bef9f3d" {
		t.Errorf("exit delta id = %s", got)
	}
	if got := exitDeltaLateTaskID(65537, "4f7226e4-0270-bf16-1ef8-fb321bef9f3d"); got != "ffffffff-0001-0001-1ef8-fb321bef9f3d" {
		t.Errorf("late exit delta id = %s", got)
	}
	if _, err := newTaskIDs("no-uuid", 4, 0); err == nil {
		t.Error("a checkpoint id that is no UUID was accepted")
	}
}

func TestIDSource(t *testing.T) {
	clock := time.Unix(1_700_000_000, 0)
	s := NewIDSource(func() time.Time { return clock }, func() uint64 { return 0xbde4e02ab92b })
	last := ""
	for step, group := range map[int]string{0: "8000", 1: "8001", -1: "bfff", -2: "bffe"} {
		id := s.Next(step)
		if id[19:23] != group || id[14] != '6' || id[24:] != "bde4e02ab92b" {
			t.Errorf("step %d: id %s", step, id)
		}
	}
	for range 100 {
		id := s.Next(1)
		if id <= last {
			t.Fatalf("id %s after %s while the clock stands", id, last)
		}
		last = id
	}
	ahead := NewIDSource(func() time.Time { return clock.Add(time.Hour) }, nil).Next(7)
	s.Observe(ahead)
	s.Observe("not an id")
	if id := s.Next(8); id <= ahead {
		t.Errorf("id %s is not above the loaded head %s", id, ahead)
	}
}

func TestPaths(t *testing.T) {
	order := []Path{pullPath("abc"), sendPath(2), {push, Path{push, 2}, 1}}
	var got []string
	for _, p := range order {
		got = append(got, p.String())
	}
	want := []string{
		"~__pregel_pull, abc",
		"~__pregel_push, 0000000002, 0000000000",
		"~__pregel_push, ~__pregel_push, 0000000002, 0000000001",
	}
	if !slices.Equal(got, want) || !slices.IsSorted(got) {
		t.Errorf("paths %q, want %q in this order", got, want)
	}
	if !callPath(pullPath("n"), 0).callerReports() || sendPath(1).callerReports() || pullPath("n").callerReports() {
		t.Error("only calls are reported by their callers")
	}
}

func TestNamespaces(t *testing.T) {
	for ns, want := range map[string]string{
		"": "", "node:1": "", "node:1|child:2": "node:1", "node:1|1|child:2": "node:1",
		"node:1|1|child:2|1": "node:1", "parent:1|1|child:1|1|node:1|1": "parent:1|1|child:1",
	} {
		if got := parentNS(ns); got != want {
			t.Errorf("parent of %q = %q, want %q", ns, got, want)
		}
	}
	if got := recastNS("parent:1|1|child:2|1"); got != "parent|child" {
		t.Errorf("recast = %q", got)
	}
	if got := stableNS("parent:1|1|child:2|1"); got != "parent|1|child|1" {
		t.Errorf("stable = %q", got)
	}
}
