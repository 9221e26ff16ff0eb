// Package methods calls every exported method of a value, for tests of what holds for all of them: after
// Close, with a context that has ended, with arguments that are zero.
//
// It is for this repository, and makes no promise to others.
package methods

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"testing"
	"time"
)

// Answer is the result of a call.
type Answer struct {
	Method string
	// Takes: the method has a context. Says: it returns an error, or yields some.
	Takes, Says bool
	Err         error
}

// Each calls each exported method of v, one by one, but those of except, which maps their names to the
// reason. A parameter gets ctx, or the first of args of its type, or its zero value. What an
// iterator yields is read to the end. A panic, a call that does not end, and a name in except that is no
// method fail the test.
func Each(t *testing.T, v any, ctx context.Context, except map[string]string, args []any, check func(t *testing.T, a Answer)) {
	t.Helper()
	of := reflect.ValueOf(v)
	for name := range except {
		if !of.MethodByName(name).IsValid() {
			t.Errorf("%T has no method %s", v, name)
		}
	}
	for i := range of.NumMethod() {
		name := of.Type().Method(i).Name
		if except[name] != "" {
			continue
		}
		t.Run(fmt.Sprintf("%T.%s", v, name), func(t *testing.T) {
			done := make(chan Answer, 1)
			go func() {
				a := Answer{Method: name}
				defer func() {
					if p := recover(); p != nil {
						t.Errorf("panic: %v", p)
					}
					done <- a
				}()
				call(of.Method(i), ctx, args, &a)
			}()
			select {
			case a := <-done:
				if !t.Failed() {
					check(t, a)
				}
			case <-time.After(time.Minute):
				t.Error("the call does not end")
			}
		})
	}
}

// Covered fails the test for each exported method of v that is not in a table of it, unless except says why.
func Covered[T any](t *testing.T, v any, table map[string]T, except map[string]string) {
	t.Helper()
	of := reflect.TypeOf(v)
	for i := range of.NumMethod() {
		name := of.Method(i).Name
		if _, there := table[name]; !there && except[name] == "" {
			t.Errorf("%T.%s is not in the table", v, name)
		}
	}
}

// Ended calls methods as Each does, with a context that has ended: each that takes one fails, with args and
// with zero arguments. With zero arguments alone, none panics or waits.
func Ended(t *testing.T, v any, except map[string]string, args []any) {
	t.Helper()
	ended, end := context.WithCancel(t.Context())
	end()
	for _, args := range [][]any{args, nil} {
		Each(t, v, ended, except, args, func(t *testing.T, a Answer) {
			if a.Takes && a.Says && a.Err == nil {
				t.Error("there is no error")
			}
		})
	}
	Each(t, v, t.Context(), except, nil, func(*testing.T, Answer) {})
}

// Closed calls methods as Each does: whatever says an error says closed.
func Closed(t *testing.T, v any, except map[string]string, args []any, closed error) {
	t.Helper()
	Each(t, v, t.Context(), except, args, func(t *testing.T, a Answer) {
		if a.Says && !errors.Is(a.Err, closed) {
			t.Errorf("the error is %v", a.Err)
		}
	})
}

var (
	errorType   = reflect.TypeFor[error]()
	contextType = reflect.TypeFor[context.Context]()
)

func call(method reflect.Value, ctx context.Context, args []any, a *Answer) {
	var in []reflect.Value
	for i := range method.Type().NumIn() {
		p := method.Type().In(i)
		if p == contextType {
			a.Takes = true
			in = append(in, reflect.ValueOf(ctx))
			continue
		}
		if method.Type().IsVariadic() && i == method.Type().NumIn()-1 {
			p = p.Elem()
		}
		arg := reflect.Zero(p)
		for _, given := range args {
			if reflect.TypeOf(given) == p || p.Kind() == reflect.Interface && p.NumMethod() > 0 && reflect.TypeOf(given).Implements(p) {
				arg = reflect.ValueOf(given)
				break
			}
		}
		if !method.Type().IsVariadic() || i < method.Type().NumIn()-1 || !arg.IsZero() {
			in = append(in, arg)
		}
	}
	for _, out := range method.Call(in) {
		switch {
		case out.Type() == errorType:
			a.hear(out)
		case isIterator(out.Type()):
			yield := out.Type().In(0)
			out.Call([]reflect.Value{reflect.MakeFunc(yield, func(got []reflect.Value) []reflect.Value {
				a.hear(got[len(got)-1])
				return []reflect.Value{reflect.ValueOf(true)}
			})})
			a.Says = a.Says || yield.In(yield.NumIn()-1) == errorType
		}
	}
}

func (a *Answer) hear(err reflect.Value) {
	if err.Type() != errorType {
		return
	}
	a.Says = true
	if !err.IsNil() {
		a.Err = err.Interface().(error)
	}
}

func isIterator(t reflect.Type) bool {
	return t.Kind() == reflect.Func && t.NumIn() == 1 && t.NumOut() == 0 && t.In(0).Kind() == reflect.Func &&
		t.In(0).NumIn() > 0 && t.In(0).NumOut() == 1 && t.In(0).Out(0).Kind() == reflect.Bool
}
