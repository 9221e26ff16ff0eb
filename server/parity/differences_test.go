package parity

import (
	"regexp"
	"sync"
	"testing"
)

// intended is a difference between stele and the reference server that is meant, or that is
// not mended yet. The patterns are regular expressions for the whole of a name; an empty one
// is any.
type intended struct {
	scenario, exchange, path string
	kind                     kind
	why                      string
}

// kind says what a difference is.
type kind int

const (
	meant   kind = iota // stele does it otherwise on purpose
	absence             // what is asked is not there in stele
	open                // to be mended
)

// differences are all of them. TestReplay fails if one is not met.
var differences = []intended{
	{"", "", `.*\.run_attempt`, meant, "checkpoints do not say in which attempt they were made; streams say it in their first event"},

	// Protocol v2.
	{"v2_.*", "", `events (updates|tasks|checkpoints)/.*`, meant, "the reference sends nothing on these channels of the protocol"},
	{"v2_custom", "", `events custom/.*`, meant, "what a node emits is shown whatever the graph; the reference shows it for one with a transformer, as v2_telling has"},
	{"v2_.*", "", `(events values/.*|body\.values)\.messages\[\d+\]\.(content|response_metadata.*)`, meant,
		"under v2 the reference makes models answer in content blocks; in Go a model's answer does not depend on who listens"},
	{"v2_socket", "a tree while it waits|respond", `answers\[\d+\]\.meta\.applied_through_seq`, meant, "there are more events, so other numbers; all are sent before the answer"},
	{"v2_counter", "the runs", `body\[0\]\.kwargs\.(stream_mode|context|config\.configurable)\b.*`, meant, "runs of v2 are runs like others, with other stream modes"},
	{"v2_commands", "state\\..*", "body.*", meant, "the protocol has state.get, state.listCheckpoints and state.fork, and the reference does not know them"},
	{"v2_commands", "input.inject", "body.*", meant, "the protocol has it, so the code is not_supported"},
	{"v2_commands", "events of (since nobody knows when|a wrong depth|wrong namespaces)", "", meant, "what is of a wrong type is refused; the reference takes it for missing"},
	{"v2_commands", "(on|events of) a thread with a wrong id", "", meant, "the id of a thread is a UUID, as everywhere else"},
	{"v2_update", "it asks again|the state after it", `body\.(status|interrupts.*|next.*|tasks.*)`, meant,
		"LangGraph as a library, and stele, wait with the question that comes after an answer and an update; the reference says that the thread is idle"},
	{"v2_tool_update", "events", `events (tools|messages)/.*\.(name|text)`, meant, "the answer that a Command writes has the name of its tool, and is shown as a message with its text; the reference shows an empty one"},
	{"v2_tool_arguments", "events", `events tools/.*\.message`, meant, "why arguments do not fit is said in the words of the schema"},
	{"v2_tool_failure", "events", `events lifecycle/.*\.error`, meant, "errors of graphs have the words of stele"},
	{"v2_commands", "events of a channel that is not there", `body\.detail`, meant, "checkpoints is a channel too, and so listed"},

	// Errors.
	{"(background|waits|interrupts|states|streams|threads|v2_tool_mode)", "a run of v1|a wrong (batch|strategy|mode|durability|if_not_exists|command|field)|without an assistant|history before an id", `body\.detail`, meant,
		"a refusal says which field is wrong; the reference also says where its OpenAPI document says so"},
	{"agents", "update with a message|updated", "", meant, "the reference fails with 500, as its last run was given a wrong message"},
	{"states", "history before|update with a wrong value", "", meant, "the reference fails with 500"},
	{"threads", "search by values", "", meant, "the reference fails with 500"},
	{"crons", "no schedule", "", meant, "the reference fails with 500"},
	{"(waits|interrupts|streams|agents)", "goto|goto nowhere|a recursion limit|input of a wrong kind|a wrong message|one answer for two|input and command", `(body\.__error__|frames\[3\]\[1\])\.(error|message)`, meant,
		"errors of graphs have the words and types of stele"},
	{"waits", "the state that failed", `body\.tasks\[0\]\.error`, meant, "an error in Go is a text"},
	{"states", "update as a node that is not there", `body\.detail`, meant, "the text of stele"},
	{"stores", "put into langgraph's", `body\.detail`, meant, "the text of stele"},
	{"stores", "get without a key|get without a namespace|put into a label with a dot", "", meant, "errors are {detail} everywhere"},
	{"cancels", "cancel none|update a busy thread", `body\.detail`, meant, "the reference prints its runs; the words differ"},
	{"drawings", "a wrong xray", `body\.detail`, meant, "it says which value"},
	{"background", "join one that is not there|cancel in a wrong way", "", meant, "what is not there is 404, and what is wrong 422"},

	// Proxies.
	{"", "", `header (cache-control|x-accel-buffering)`, meant, "proxies are asked to compress no stream either, and to pass on what keeps a wait alive"},

	// Guards.
	{"system", "metrics", "header content-type", meant, "Prometheus's text format has version 0.0.4"},
	{"system", "a body of another type", "", meant, "changes need a JSON content type, so that no form of another page can make them"},
	{"system", "a preflight.*", "", meant, "pages of listed origins alone may use the server"},

	// States.
	{"(states|refusals)", ".*at .*checkpoint.*", `body\.checkpoint\.checkpoint_ns`, meant, "a checkpoint always says its namespace"},
	{"(states|supersteps)", "", `body\.metadata\.checkpoint_id`, meant, "where a fork comes from is parent_checkpoint"},
	{"supersteps", "its state", `body\.metadata\.(thread_id|graph_id)`, meant, "the graph is in the metadata of what supersteps made"},
	{"(nested|v2_nested)", "", `.*metadata\.(checkpoint_map|checkpoint_ns|langgraph_.*)`, meant, "the metadata of a state inside does not repeat where its task ran"},
	{"nested", "resume|the end.*", "", meant,
		"after an update of the graph inside its question is another one, with an id of its own, and may ask something else: it is asked before it is answered, as pregel has it for every answer; the reference gives the answer to whatever asks first"},
	{"nested", "the thread", `body\.values\.path.*`, meant, "the values of a thread are those of its own graph; the reference shows what was streamed last, from a graph inside"},
	{"(cancels|v2_failure)", "the thread.*", `body\.(values.*|error|interrupts)`, meant, "the values of a thread are those of its newest checkpoint, whatever its run does"},
	{"threads", "copy|the copy stays", `body\.(config\.configurable|error|interrupts|values)`, meant, "a copy shows its values at once"},
	{"threads", ".*copy|what prune kept", `.*metadata\.n`, meant, "what was set to null is not kept"},
	{"threads", "prune, and keep the latest", "", meant, "the reference in memory cannot do it"},

	// Runs.
	{"background", "the thread waits", `body\.(error|interrupts|values)`, meant, "its only run was deleted with its checkpoints; the reference still shows the values"},
	{"background", "a stateless one|a batch", `.*metadata\.graph_id`, meant, "a run always says its graph"},
	{"interrupts", "answer when nobody asks", "", meant, "an answer that nobody waits for is refused"},
	{"interrupts", "break at a node that is not there", "", meant, "a run that would not stop where it is told to is refused"},
	{"interrupts", "goto with a packet|only an update", "", meant, "what a failed run of another graph left is not skipped over"},
	{"streams", "", "header location", meant, "it names the thread, where the run can be joined"},
	{"streams", "counter, mode (checkpoints|debug)", "frames.*", meant, "stateless runs have checkpoints too, until they are removed"},
	{"streams", "events", "", absence, "mode events: there are no LangChain callbacks in Go"},
	{"agents", "a tool that asks", `frames\[2\]\[1\]\[0\]\.tool_calls\[0\]`, meant, "a chunk has tool_call_chunks; whole calls are made of them"},
	{"agents", "a tuple as a message", `body\.messages\[1\]\.id`, meant, "models of LangChain end the id of an answer with -0 if nobody listens"},

	// Refusals.
	{"refusals", "a cron with context and configurable|a recursion limit of .*|an answer of false .*", "", meant, "what no run can be made of is refused before one is made"},
	{"refusals", "a checkpoint that is no.*|a checkpoint without a thread", "", meant, "a run from a checkpoint that is not there is refused; the reference runs it from the beginning"},
	{"refusals", "a history of (0|1001)", "", meant, "the limit is from 1 to 1,000, by GET as by POST"},
	{"refusals", "cancel by ids and a status", `body\.detail`, meant, "it says what is wrong"},

	{"details", "its state", `body\.metadata\.in`, meant, "checkpoints keep of metadata what is no list or object"},

	// Commands that begin a thread.
	{"jumps", ".*(goto with|only) an update.*", "", meant, "the update counts once; the reference applies it twice, and fails if there is no goto"},
	{"waits", "input of unknown keys", "", meant, "input of which no key is the graph's is refused; the reference runs on nothing"},
	{"states", "update a key that is not there", "", meant, "an update of which no key is the graph's is refused"},
	{"jumps", ".*goto nowhere.*", "", meant, "a Command to a node that the graph does not have is refused; the reference begins at the first node"},
	{"jumps", ".*an answer.*", "", meant, "an answer that nobody waits for is refused"},
	{"jumps", "an empty command .*", `body\.__error__\.message`, meant, "errors of graphs have the words and types of stele"},
	{"jumps", "a thread that begins with an update|the state of an update", "", meant, "the reference fails with 500"},

	// Corners.
	{"corners", "two questions", `body\.(answers|name)`, meant, "the values come with all questions; the reference leaves them out if there are several"},
	{"corners", "a wrong .*|a superstep of no node", `body\.detail`, meant, "a refusal says which field is wrong"},
	{"corners", "an empty superstep|a superstep of a node that is not there", `body\.detail`, meant, "the text of stele"},
	{"corners", "run it", `body\.text`, meant, "the context that an assistant keeps is what its nodes are configured with"},
	{"corners", "a cron that ends at a time without a zone", `body\.end_time`, meant, "times are shown with their zone, which is UTC"},

	// The rest.
	{"assistants", "set the first version|patch the graph", `body\.context\.style`, meant, "a version has a context too; the reference takes its config, and leaves the context of the version before"},
	{"drawings", ".* by name", "", meant, "a graph's name names its assistant everywhere"},
	{"stores", "search.*", "", meant, "the newest first, as LangGraph's stores on disk have it"},
	{"drawings", "schemas of .*|graphs inside.*|one of them", `body\..*(input|output|state)_schema.*`, meant, "schemas are those of the types in Go, for input and output too"},
	{"nested", "the (newest )?state.*|the history inside", `.*tasks\[0\]\.id`, meant, "the questions of a thread are under the tasks of its own graph; the reference has the task that asks"},
}

// tally counts what TestReplay met.
type tally struct {
	mu            sync.Mutex
	met           map[int]int
	played, equal int
	kinds         [3]int // exchanges with differences, by the worst kind
}

func newTally() *tally { return &tally{met: map[int]int{}} }

// judge returns the differences that are not in the table.
func (ta *tally) judge(scenario, exchange string, found []difference) (unknown []difference) {
	ta.mu.Lock()
	defer ta.mu.Unlock()
	ta.played++
	worst := meant
	for _, d := range found {
		known := false
		for i, in := range differences {
			if match(in.scenario, scenario) && match(in.exchange, exchange) && match(in.path, d.path) {
				known = true
				worst = max(worst, in.kind)
				ta.met[i]++
			}
		}
		if !known {
			unknown = append(unknown, d)
		}
	}
	if len(found) == 0 {
		ta.equal++
	} else {
		ta.kinds[worst]++
	}
	return unknown
}

func match(pattern, s string) bool {
	return pattern == "" || regexp.MustCompile("^(?:"+pattern+")$").MatchString(s)
}

// report says what was met, and fails for what is in the table and was not.
func (ta *tally) report(t *testing.T, want int) {
	t.Logf("%d exchanges: %d equal, %d with differences that are meant, %d of what is not there, %d to be mended",
		ta.played, ta.equal, ta.kinds[meant], ta.kinds[absence], ta.kinds[open])
	if ta.played != want {
		t.Logf("%d exchanges are recorded: some were not played", want)
		return
	}
	for i, in := range differences {
		if ta.met[i] == 0 {
			t.Errorf("the table has a difference that is none: %s, %s, %s: %s", in.scenario, in.exchange, in.path, in.why)
		}
	}
}
