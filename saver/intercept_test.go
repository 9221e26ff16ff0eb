package saver_test

import (
	"context"
	"errors"
	"iter"
	"maps"
	"reflect"
	"slices"
	"testing"

	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/memory"
)

// contract are the interfaces of a saver.
var contract = []reflect.Type{reflect.TypeFor[saver.Saver](), reflect.TypeFor[saver.Eraser]()}

// uncalled are the methods that are no calls: they do nothing.
var uncalled = []string{"NextVersion", "Serializer"}

var errRefused = errors.New("refused")

// callAll calls every method of the contract of s but the uncalled once, with empty
// arguments, and returns their errors by name.
func callAll(t *testing.T, s saver.Saver) map[string]error {
	t.Helper()
	out := map[string]error{}
	for _, typ := range contract {
		for i := range typ.NumMethod() {
			m := typ.Method(i)
			if slices.Contains(uncalled, m.Name) {
				continue
			}
			method := reflect.ValueOf(s).MethodByName(m.Name)
			if !method.IsValid() {
				t.Fatalf("%T has no %s", s, m.Name)
			}
			var args []reflect.Value
			for j := range m.Type.NumIn() {
				in := m.Type.In(j)
				switch {
				case in == reflect.TypeFor[context.Context]():
					args = append(args, reflect.ValueOf(t.Context()))
				case m.Type.IsVariadic() && j == m.Type.NumIn()-1:
				default:
					args = append(args, reflect.Zero(in))
				}
			}
			results := method.Call(args)
			out[m.Name] = nil
			last := results[len(results)-1].Interface()
			switch r := last.(type) {
			case iter.Seq2[*saver.Tuple, error]:
				for _, err := range r {
					out[m.Name] = err
				}
			case iter.Seq2[saver.ThreadInfo, error]:
				for _, err := range r {
					out[m.Name] = err
				}
			default:
				err, _ := last.(error)
				out[m.Name] = err
			}
		}
	}
	return out
}

// counted is s, and how often each of its methods was called.
func counted(s saver.Saver) (saver.Saver, map[string]int) {
	n := map[string]int{}
	return saver.Intercept(s, func(ctx context.Context, call saver.Call, next func(context.Context) error) error {
		n[call.Method]++
		return next(ctx)
	}), n
}

// TestInterceptorRefuses: nothing gets past one that refuses.
func TestInterceptorRefuses(t *testing.T) {
	inside, reached := counted(memory.New(memory.Options{}))
	s := saver.Intercept(inside, func(context.Context, saver.Call, func(context.Context) error) error { return errRefused })
	for method, err := range callAll(t, s) {
		if !errors.Is(err, errRefused) {
			t.Errorf("%s: %v", method, err)
		}
	}
	if len(reached) > 0 {
		t.Errorf("got past it: %v", reached)
	}
}

// TestInterceptorCounts: one that counts misses nothing, and everything arrives once.
func TestInterceptorCounts(t *testing.T) {
	inside, reached := counted(memory.New(memory.Options{}))
	s, n := counted(inside)
	methods := callAll(t, s)
	for method := range methods {
		if n[method] != 1 {
			t.Errorf("%s was counted %d times", method, n[method])
		}
	}
	if !maps.Equal(n, reached) || len(n) != len(methods) {
		t.Errorf("counted %v, arrived %v", n, reached)
	}
}

// TestInterceptKeepsPowers: what is intercepted is an Eraser if what is inside is.
func TestInterceptKeepsPowers(t *testing.T) {
	m := memory.New(memory.Options{})
	for _, inside := range []saver.Saver{struct{ saver.Saver }{m}, m} {
		outside, _ := counted(inside)
		_, was := inside.(saver.Eraser)
		if _, is := outside.(saver.Eraser); is != was {
			t.Errorf("%T: an Eraser inside: %v, outside: %v", inside, was, is)
		}
	}
}

// TestInterceptorStops: who stops a listing is told no error, and one that refuses
// afterwards gives no thread away.
func TestInterceptorStops(t *testing.T) {
	m := memory.New(memory.Options{})
	for _, id := range []string{"1", "2"} {
		if _, err := m.Put(t.Context(), saver.Config{ThreadID: "t"}, saver.Checkpoint{V: 4, ID: id}, nil, nil); err != nil {
			t.Fatal(err)
		}
	}
	after := saver.Intercept(m, func(ctx context.Context, _ saver.Call, next func(context.Context) error) error {
		return errors.Join(next(ctx), errRefused)
	})
	seen := 0
	for _, err := range after.List(t.Context(), saver.Query{}) {
		if err != nil {
			t.Errorf("stopped: %v", err)
		}
		seen++
		break
	}
	var last error
	for _, err := range after.List(t.Context(), saver.Query{}) {
		seen, last = seen+1, err
	}
	if seen != 4 || !errors.Is(last, errRefused) { // one, then two and the error
		t.Errorf("saw %d, and last %v", seen, last)
	}
	if lease, err := after.Own(t.Context(), "t", false); lease != nil || !errors.Is(err, errRefused) {
		t.Errorf("own: %v", err)
	}
	if _, err := m.Own(t.Context(), "t", false); err != nil {
		t.Errorf("nobody should have the thread: %v", err)
	}
}
