// Search from disk: browsers refuse workers of file:// pages, so a hidden frame does their work.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      this.waiting = [];
      const frame = document.createElement("iframe");
      frame.hidden = true;
      frame.srcdoc = "<!doctype html><html><body></body></html>";
      frame.addEventListener("load", () => this.begin(frame.contentWindow, String(url)), { once: true });
      document.body.appendChild(frame);
    }
    begin(inside, url) {
      // What the frame posts arrives here; scripts it imports are loaded one after another.
      inside.postMessage = (data) => this.tell(data);
      inside.importScripts = async (...urls) => {
        for (const each of urls) await this.load(inside, each);
      };
      this.load(inside, url).then(() => {
        this.inside = inside;
        this.waiting.splice(0).forEach((data) => this.postMessage(data));
      });
    }
    load(inside, url) {
      return new Promise((done) => {
        const script = inside.document.createElement("script");
        script.src = url;
        script.onload = done;
        inside.document.body.appendChild(script);
      });
    }
    tell(data) {
      const event = new MessageEvent("message", { data });
      this.dispatchEvent(event);
      if (this.onmessage) this.onmessage(event);
    }
    postMessage(data) {
      if (!this.inside) this.waiting.push(data);
      else this.inside.dispatchEvent(new this.inside.MessageEvent("message", { data }));
    }
    terminate() {}
  };
}
