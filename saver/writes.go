package saver

// Channels whose writes are replaced, not kept, when written again.
const (
	ChannelError     = "__error__"
	ChannelScheduled = "__scheduled__"
	ChannelInterrupt = "__interrupt__"
	ChannelResume    = "__resume__"
)

// ChannelTasks is the channel of packets sent to nodes.
const ChannelTasks = "__pregel_tasks"
