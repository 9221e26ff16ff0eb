package message_test

import (
	"fmt"

	"github.com/stele-go/stele/message"
	"github.com/stele-go/stele/saver/serde"
)

// A model streams a tool call in pieces; they add up to a message.
func ExampleChunk_Add() {
	first := 0
	parts := []message.Chunk{
		{Message: message.AI("Let me "), ToolCallChunks: []message.ToolCallChunk{{Name: "weather", ID: "call_1", Args: `{"city": "Ro`, Index: &first}}},
		{Message: message.AI("look."), ToolCallChunks: []message.ToolCallChunk{{Args: `me"}`, Index: &first}}},
	}
	sum, err := parts[0].Add(parts[1:]...)
	if err != nil {
		panic(err)
	}
	m, err := sum.Whole()
	if err != nil {
		panic(err)
	}
	fmt.Println(m.Text(), m.ToolCalls[0].Name, m.ToolCalls[0].Args["city"])
	// Output: Let me look. weather Rome
}

// The newest messages that fit, beginning with a person, and the system message.
func ExampleTrim() {
	talk := []message.Message{
		message.System("be nice"),
		message.Human("hello"), message.AI("hi"),
		message.Human("how are you?"), message.AI("fine"),
	}
	kept, err := message.Trim(talk, message.TrimOptions{MaxTokens: 4, IncludeSystem: true, StartOn: []message.Type{message.TypeHuman}})
	if err != nil {
		panic(err)
	}
	for _, m := range kept {
		fmt.Println(m)
	}
	// Output:
	// system: be nice
	// human: how are you?
	// ai: fine
}

// A message in a value of any type stays what was stored, until From reads it.
func ExampleFrom() {
	stored, err := serde.Default().Encode(map[string]any{"note": message.Human("remember the milk")})
	if err != nil {
		panic(err)
	}
	v, err := serde.Default().Decode(stored)
	if err != nil {
		panic(err)
	}
	note := v.(map[string]any)["note"]
	m, err := message.From(note)
	fmt.Printf("%T: %s from a %s, %v\n", note, m.Text(), m.Type, err)
	// Output: *serde.Ext: remember the milk from a human, <nil>
}

// A message prints as a line.
func ExampleMessage_String() {
	call := message.ToolCall{Name: "weather", ID: "call_1", Args: map[string]any{"city": "Rome"}}
	for _, m := range []message.Message{message.Human("A coat?"), message.AI("", call), message.ToolResult(call, "sunny")} {
		fmt.Println(m)
	}
	// Output:
	// human: A coat?
	// ai: weather({"city":"Rome"})
	// tool: sunny
}
