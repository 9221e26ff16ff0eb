package channel_test

import (
	"errors"
	"fmt"

	"github.com/stele-go/stele/pregel/channel"
)

// step applies the writes of one superstep and prints what the channel holds.
func step(c channel.Channel, writes ...any) {
	changed, err := c.Update(writes)
	v, ok := c.Get()
	fmt.Println(v, ok, changed, err)
}

// empty is a channel as a new thread has it.
func empty(c channel.Channel) channel.Channel {
	c, err := c.Restore(nil)
	if err != nil {
		panic(err)
	}
	return c
}

func ExampleLastValue() {
	c := empty(channel.LastValue[int]().Named("n"))
	step(c, 1)
	step(c)
	_, err := c.Update([]any{2, 3})
	fmt.Println(errors.Is(err, channel.ErrInvalidUpdate), err)
	// Output:
	// 1 true true <nil>
	// 1 true false <nil>
	// true At key 'n': Can receive only one value per step. Give it a reducer, such as the tag `state:"append"`, to take several.
}

func ExampleReduce() {
	c := empty(channel.Reduce(channel.Append[string]))
	step(c, []string{"a"}, []string{"b"})
	step(c, []string{"c"})
	// Output:
	// [a b] true true <nil>
	// [a b c] true true <nil>
}

func ExampleReduceFrom() {
	c := empty(channel.ReduceFrom(func() int { return 100 }, channel.Add[int]))
	step(c, -1, -2)
	// Output: 97 true true <nil>
}

// A reducer may refuse a write, and take writes of another type than the value.
func ExampleFold() {
	longest := channel.Fold(nil, func(most int, word string) (int, error) {
		if word == "" {
			return 0, errors.New("an empty word")
		}
		return max(most, len(word)), nil
	})
	c := empty(longest.Named("longest"))
	step(c, "one", "three")
	_, err := c.Update([]any{""})
	v, _ := c.Get()
	fmt.Println(v, err != nil)
	// Output:
	// 5 true true <nil>
	// 5 true
}

func ExampleTopic() {
	c := empty(channel.Topic[string](channel.PerStep))
	step(c, "a", []string{"b", "c"})
	step(c)
	all := empty(channel.Topic[string](channel.Accumulate))
	step(all, "a")
	step(all, "b")
	// Output:
	// [a b c] true true <nil>
	// <nil> false true <nil>
	// [a] true true <nil>
	// [a b] true true <nil>
}

func ExampleEphemeral() {
	c := empty(channel.Ephemeral[string](channel.Guarded))
	step(c, "now")
	step(c)
	// Output:
	// now true true <nil>
	// <nil> false true <nil>
}

func ExampleNamedBarrier() {
	c := empty(channel.NamedBarrier("left", "right"))
	for _, who := range []string{"left", "right"} {
		if _, err := c.Update([]any{who}); err != nil {
			panic(err)
		}
		fmt.Println(who, c.Available())
	}
	// Output:
	// left false
	// right true
}

func ExampleMessages() {
	n := 0
	c := empty(channel.Messages(func() string { n++; return fmt.Sprint("m", n) }))
	step(c, channel.Message{Role: "human", Content: "hi"}, channel.Message{Role: "ai", Content: "hello"})
	step(c, channel.Message{ID: "m2", Role: "ai", Content: "hello, Ada"}, channel.RemoveMessage("m1"))
	// Output:
	// [{m1 human hi   map[]} {m2 ai hello   map[]}] true true <nil>
	// [{m2 ai hello, Ada   map[]}] true true <nil>
}

// A delta channel folds all writes of a superstep at once; between snapshots a
// checkpoint stores none of its value.
func ExampleDelta() {
	c := empty(channel.Delta(100, func(words []string, writes []string) ([]string, error) { return append(words, writes...), nil }))
	step(c, "a", "b")
	_, stored := c.Checkpoint()
	fmt.Println("stored:", stored)
	// Output:
	// [a b] true true <nil>
	// stored: false
}

func ExampleConvert() {
	type user struct {
		Name string `json:"name"`
	}
	u, err := channel.Convert[user](map[string]any{"name": "Ada"})
	fmt.Println(u.Name, err)
	_, err = channel.Convert[int8](1000)
	var wrong *channel.TypeError
	fmt.Println(errors.As(err, &wrong))
	// Output:
	// Ada <nil>
	// true
}
