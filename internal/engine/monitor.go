package engine

import "github.com/stele-go/stele/monitor"

// What the engine tells about itself.
type (
	// Stats is monitor.Stats.
	Stats = monitor.Stats
	// Metrics is monitor.StoreMetrics.
	Metrics = monitor.StoreMetrics
	// OpenReport is monitor.OpenReport.
	OpenReport = monitor.OpenReport
	// Encryption is monitor.Encryption.
	Encryption = monitor.Encryption
	// Health is monitor.Health.
	Health = monitor.Health
	// Status is monitor.Status.
	Status = monitor.Status
	// Trouble is monitor.Trouble.
	Trouble = monitor.Trouble
	// Problem is monitor.Problem.
	Problem = monitor.Problem
	// Space is monitor.Space.
	Space = monitor.Space
	// Events is monitor.Events.
	Events = monitor.Events
	// FlushInfo is monitor.FlushInfo.
	FlushInfo = monitor.FlushInfo
	// CompactInfo is monitor.CompactInfo.
	CompactInfo = monitor.CompactInfo
	// CompactProgress is monitor.CompactProgress.
	CompactProgress = monitor.CompactProgress
	// ScrubProgress is monitor.EraseProgress.
	ScrubProgress = monitor.EraseProgress
)
