package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stele-go/stele/agent/model/modeltest"
)

// said is an answer of OpenAI's chat completions.
func said(delta, finish string) modeltest.Reply {
	return modeltest.Reply{Events: []string{
		`data: {"id":"1","model":"m","choices":[{"index":0,"delta":` + delta + `,"finish_reason":null}]}` + "\n\n",
		`data: {"id":"1","model":"m","choices":[{"index":0,"delta":{},"finish_reason":"` + finish + `"}]}` + "\n\n",
		"data: [DONE]\n\n",
	}}
}

// TestChat: the agent asks before it mails, waits for the answer in another process, and remembers.
func TestChat(t *testing.T) {
	for _, key := range []string{"ANTHROPIC_API_KEY", "GEMINI_API_KEY", "OPENAI_API_KEY", "OPENAI_BASE_URL"} {
		t.Setenv(key, "")
	}
	dir := filepath.Join(t.TempDir(), "chat")
	var out bytes.Buffer
	if err := run(t.Context(), dir, "", "", strings.NewReader(""), &out); err == nil {
		t.Error("a chat without a model")
	}
	s := modeltest.Serve(
		said(`{"tool_calls":[{"index":0,"id":"c1","type":"function","function":{"name":"mail","arguments":"{\"to\":\"Ada\",\"text\":\"Hi\"}"}}]}`, "tool_calls"),
		said(`{"content":"It is out."}`, "stop"),
		said(`{"content":"To Ada."}`, "stop"),
	)
	defer s.Close()
	t.Setenv("OPENAI_BASE_URL", s.URL)
	t.Setenv("OPENAI_API_KEY", "key")
	for _, person := range []string{"Greet Ada.\n", "y\n", "To whom was it?\n"} { // a process for each
		if err := run(t.Context(), dir, "", "", strings.NewReader(person), &out); err != nil {
			t.Fatal(err)
		}
	}
	for _, want := range []string{"mail map[text:Hi to:Ada]?", "It is out.", "To Ada."} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in %s", want, &out)
		}
	}
	mails, err := filepath.Glob(dir + ".mails/*")
	if err != nil || len(mails) != 1 {
		t.Fatalf("mails %v %v", mails, err)
	}
	if text, err := os.ReadFile(mails[0]); err != nil || string(text) != "Ada: Hi\n" {
		t.Errorf("%s %v", text, err)
	}
	asked := s.Asked()
	if messages, _ := asked[len(asked)-1].Body["messages"].([]any); len(messages) != 6 {
		t.Errorf("the model saw %v", messages)
	}
}

// TestModels: the key in the environment says which model it is.
func TestModels(t *testing.T) {
	for _, key := range []string{"ANTHROPIC_API_KEY", "OPENAI_API_KEY", "GEMINI_API_KEY"} {
		t.Run(key, func(t *testing.T) {
			for _, other := range []string{"ANTHROPIC_API_KEY", "OPENAI_API_KEY", "GEMINI_API_KEY", "OPENAI_BASE_URL"} {
				t.Setenv(other, "")
			}
			t.Setenv(key, "key")
			if m, err := pick(t.Context(), ""); err != nil || m == nil {
				t.Errorf("%v %v", m, err)
			}
		})
	}
}
