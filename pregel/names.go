package pregel

import (
	"github.com/stele-go/stele/pregel/internal/answer"
	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/rules"
)

// The names of LangGraph's protocol, as they stand in stored data.
const (
	// Start is the pseudo node and input channel of a StateGraph.
	Start = "__start__"
	// End names no node: an edge to it ends a path. As the node of an
	// UpdateState without values it clears all pending tasks.
	End = "__end__"
	// Parent is Command.Graph for the closest parent graph.
	Parent = "__parent__"
	// Input is the pseudo node of a graph's input, and as the node of an
	// UpdateState makes the values an input.
	Input = "__input__"
	// Copy, as the node of an UpdateState, copies the checkpoint.
	Copy = "__copy__"
	// TagHidden keeps a node out of streams and away from breakpoints on "*".
	TagHidden = "langsmith:hidden"
	// AllNodes, as the only name of a list of breakpoints, stands for all
	// nodes that are not hidden.
	AllNodes = "*"
	// KeyInterrupt is where Invoke and the streams put interrupts among the
	// values.
	KeyInterrupt = "__interrupt__"
	// RootKey is the only channel of a state without keys.
	RootKey = "__root__"
)

const (
	chInterrupt   = saver.ChannelInterrupt
	chResume      = saver.ChannelResume
	chError       = saver.ChannelError
	chErrorSource = answer.ErrorSource
	chStopped     = rules.ChannelStopped
	chAnswers     = answer.ChannelGiven
	chAnswersOver = answer.ChannelOver
	chNoWrites    = "__no_writes__"
	chTasks       = saver.ChannelTasks
	chReturn      = "__return__"
	chPrevious    = "__previous__"

	push = "__pregel_push"
	pull = "__pregel_pull"

	nsSep = "|"
	nsEnd = ":"

	nullTaskID = answer.NoTask

	// handlerMark is the part of an error handler's identity that distinguishes it from a packet.
	handlerMark = "node_error_handler"
	cacheNS     = "__pregel_ns_writes"

	branchPrefix = "branch:to:"

	// keyDeltaCounters is the metadata that counters are stored as.
	keyDeltaCounters = "counters_since_delta_snapshot"

	// snapshotBumps is the pseudo node under which versions_seen remembers
	// versions that moved only to store a snapshot of a delta channel.
	snapshotBumps = "__snapshot_bumps__"
)

// reserved names may not name channels, managed values or nodes.
var reserved = map[string]bool{
	TagHidden: true, Input: true, chInterrupt: true, chResume: true, chError: true, chErrorSource: true,
	chNoWrites: true, chStopped: true, chAnswers: true, chAnswersOver: true, chItems: true, chCalls: true, chTravel: true, chWaits: true, snapshotBumps: true, push: true,
	pull: true, nsSep: true, nsEnd: true, "configurable": true,
	"__pregel_send": true, "__pregel_read": true, "__pregel_checkpointer": true, "__pregel_stream": true,
	"__pregel_resuming": true, "__pregel_replay_state": true, "__pregel_task_id": true, "__pregel_strict_resume": true,
	"__pregel_timed_attempt_observer": true, "__pregel_resume_map": true, "__pregel_stream_messages_v2": true,
	"checkpoint_map": true, "checkpoint_id": true, "checkpoint_ns": true,
}

// skippedByApply are names that tasks write to but that are not channels.
var skippedByApply = map[string]bool{
	chNoWrites: true, chAnswers: true, chAnswersOver: true, chItems: true, chCalls: true, chTravel: true, chWaits: true, push: true, chResume: true, chInterrupt: true,
	chReturn: true, chError: true, chErrorSource: true,
}

// isSpecial reports whether the channel is a special one, on which a later write of a task
// replaces an earlier one.
func isSpecial(channel string) bool { return saver.WriteIndex(channel, 0) < 0 }

// chItems is the pseudo channel of puts.
const chItems = "__stele_items__"
