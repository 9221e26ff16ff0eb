package schema_test

import (
	"context"
	"fmt"

	"github.com/stele-go/stele/agent/providers/schema"
	"github.com/stele-go/stele/agent/tool"
	"github.com/stele-go/stele/message"
	"github.com/stele-go/stele/pregel"
	"github.com/stele-go/stele/pregel/graph"
)

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// A model that asks for the weather of two cities at once, and a node that looks.
func ExampleTool() {
	type city struct {
		City string `json:"city" jsonschema:"its name, in English"`
	}
	weather := must(schema.Tool("weather", "Tells the weather of a city.", func(_ context.Context, in city) (string, error) {
		return "sunny in " + in.City, nil
	}))
	tools := must(tool.NewNode(tool.Options{}, weather))

	model := pregel.NodeOf(func(_ context.Context, s message.State) (any, error) { // a scripted one
		if len(s.Messages) > 1 {
			return message.State{Messages: message.List{message.AI("It is " + s.Messages[2].Text() + " and " + s.Messages[3].Text() + ".")}}, nil
		}
		ask := func(id, name string) message.ToolCall {
			return message.ToolCall{ID: id, Name: "weather", Args: map[string]any{"city": name}}
		}
		return message.State{Messages: message.List{message.AI("", ask("1", "Rome"), ask("2", "Oslo"))}}, nil
	})
	g := must(graph.New(graph.Key("messages", message.Channel(nil))).
		Node("model", model).
		Node("tools", tools.Run).
		Edge(graph.Start, "model").
		Conditional("model", "tools", tool.Condition, "tools", graph.End).
		Edge("tools", "model").
		Compile(graph.Options{}))
	res := must(g.Invoke(context.Background(), pregel.Address{}, message.State{Messages: message.List{message.Human("How is the weather?")}}))
	talk := must(message.FromList(res.Map()["messages"]))
	fmt.Println(talk[len(talk)-1].Text())
	// Output: It is sunny in Rome and sunny in Oslo.
}
