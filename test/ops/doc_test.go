// Package ops tests what operators rely on: counters, health, events, and memory
// that stays bounded when the device is slow.
package ops
