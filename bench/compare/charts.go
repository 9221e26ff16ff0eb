package main

func (r *run) chartAll() error { return nil }
