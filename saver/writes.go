package saver

// The special channels. A write on one replaces an earlier write of the same task.
const (
	ChannelError     = "__error__"
	ChannelScheduled = "__scheduled__"
	ChannelInterrupt = "__interrupt__"
	ChannelResume    = "__resume__"
)

// ChannelTasks is the channel of packets sent to nodes.
const ChannelTasks = "__pregel_tasks"
