// Browsers start no worker for a page that is opened from the disk, and the search runs in one: it
// runs in a frame there. The theme would load a script for that from elsewhere.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super()
      const frame = document.createElement("iframe")
      frame.hidden = true
      frame.srcdoc = `<script src="${url}"></script>`
      this.started = new Promise(resolve => {
        frame.addEventListener("load", () => resolve(frame.contentWindow))
      })
      document.body.append(frame)
      this.started.then(inside => {
        inside.postMessage = data => this.dispatchEvent(new MessageEvent("message", { data }))
      })
    }

    postMessage(data) {
      this.started.then(inside => inside.dispatchEvent(new MessageEvent("message", { data })))
    }
  }
}
