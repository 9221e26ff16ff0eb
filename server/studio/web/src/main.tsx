import { render } from "preact";
import { App, begun } from "./app";
import "./style.css";

// What the server is was asked for with the page, so it is there by now or soon. Drawn with it, the
// first frame has its screen, which has sent for what it shows; one without it would only be in the
// way. A slow server does not keep the frame.
const patience = 150;

Promise.race([begun, new Promise((done) => setTimeout(done, patience))]).then(() => render(<App />, document.getElementById("app")!));
