import { Component, type ComponentChildren } from "preact";
import { say } from "./load";

// Guarded shows what it is given, or why that cannot be drawn: what programs store may be
// anything, and the rest of the page stays.
export class Guarded extends Component<{ children: ComponentChildren }, { error?: unknown }> {
  override componentDidCatch(error: unknown) {
    this.setState({ error });
  }
  override render() {
    if (this.state.error === undefined) return this.props.children;
    return (
      <p class="error" role="alert">
        This cannot be drawn: {say(this.state.error)}
      </p>
    );
  }
}
