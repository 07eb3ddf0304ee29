"""Opens a page in headless Chromium and drives it as a user does. Speaks the DevTools protocol over two pipes."""
import json
import os
import shutil
import subprocess
import tempfile
import time

NAMES = ("chromium", "chromium-browser", "google-chrome")


def program():
    return next(filter(None, map(shutil.which, NAMES)), None)


class Browser:
    def __init__(self, width=1400, height=1000):
        self.folder = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        to_browser, self.commands = os.pipe()
        self.answers, from_browser = os.pipe()

        def inherit():  # the protocol's descriptors are 3 and 4
            os.dup2(os.dup(to_browser), 103)
            os.dup2(os.dup(from_browser), 104)
            os.dup2(103, 3)
            os.dup2(104, 4)

        self.process = subprocess.Popen(
            [program(), "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
             "--disable-background-networking", f"--window-size={width},{height}", f"--user-data-dir={self.folder.name}",
             "--remote-debugging-pipe", "about:blank"],
            close_fds=False, preexec_fn=inherit, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(to_browser)
        os.close(from_browser)
        self.number, self.buffer, self.events, self.session = 0, b"", [], None
        target = next(some for some in self.call("Target.getTargets")["targetInfos"] if some["type"] == "page")
        self.session = self.call("Target.attachToTarget", targetId=target["targetId"], flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(domain + ".enable")

    def close(self):
        try:
            self.session = None
            self.call("Browser.close")
            self.process.wait(20)
        except (OSError, EOFError, subprocess.TimeoutExpired):
            self.process.kill()
            self.process.wait()
        os.close(self.commands)
        os.close(self.answers)
        self.folder.cleanup()

    def receive(self):
        while b"\0" not in self.buffer:
            more = os.read(self.answers, 1 << 20)
            if not more:
                raise EOFError("the browser ended")
            self.buffer += more
        message, self.buffer = self.buffer.split(b"\0", 1)
        return json.loads(message)

    def call(self, method, **parameters):
        self.number += 1
        message = {"id": self.number, "method": method, "params": parameters}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.commands, json.dumps(message).encode() + b"\0")
        while True:
            answer = self.receive()
            if answer.get("id") == self.number:
                if "error" in answer:
                    raise AssertionError(f"{method}: {answer['error']}")
                return answer["result"]
            self.events.append(answer)

    def open(self, path):
        """Waits until the page has run its scripts."""
        self.events.clear()
        self.call("Page.navigate", url="file://" + os.path.abspath(path))
        while not any(event.get("method") == "Page.loadEventFired" for event in self.events):
            self.events.append(self.receive())
        self.settle()

    def complaints(self):
        """Exceptions and errors of the page, and addresses that it requested."""
        found = []
        for event in self.events:
            method, more = event.get("method"), event.get("params", {})
            if method == "Runtime.exceptionThrown":
                found.append(more["exceptionDetails"].get("exception", {}).get("description", str(more)))
            elif method == "Log.entryAdded" and more["entry"]["level"] == "error":
                found.append(more["entry"]["text"])
            elif method == "Network.requestWillBeSent" and not more["request"]["url"].startswith(("file:", "data:")):
                found.append("requested " + more["request"]["url"])
        return found

    def run(self, expression):
        """The value of a JavaScript expression; waits for a promise."""
        result = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in result:
            raise AssertionError(f"{expression}: {result['exceptionDetails']}")
        return result["result"].get("value")

    def settle(self):
        """Waits for two frames: the page draws in the next one."""
        self.run("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(done))))")

    def place(self, selector, x=0.5, y=0.5):
        """Scrolls the element into view; a point of it, from 0 to 1 in each direction."""
        box = self.run(f"(() => {{ const e = document.querySelector({json.dumps(selector)}); e.scrollIntoView({{block: 'center'}}); "
                       "const b = e.getBoundingClientRect(); return [b.left, b.top, b.width, b.height]; })()")
        return box[0] + x * box[2], box[1] + y * box[3]

    def mouse(self, kind, x, y, **more):
        self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, **more)

    def move(self, selector, x=0.5, y=0.5):
        self.mouse("mouseMoved", *self.place(selector, x, y))
        self.settle()

    def click(self, selector, x=0.5, y=0.5):
        at = self.place(selector, x, y)
        self.mouse("mouseMoved", *at)
        for kind in ("mousePressed", "mouseReleased"):
            self.mouse(kind, *at, button="left", buttons=1, clickCount=1)
        self.settle()

    def drag(self, selector, begin, end, y=0.4):
        """Drags from one fraction of the element's width to another one."""
        (left, top), (right, _) = self.place(selector, begin, y), self.place(selector, end, y)
        self.mouse("mouseMoved", left, top)
        self.mouse("mousePressed", left, top, button="left", buttons=1, clickCount=1)
        for step in range(1, 6):
            self.mouse("mouseMoved", left + (right - left) * step / 5, top, button="left", buttons=1)
        self.mouse("mouseReleased", right, top, button="left", buttons=0, clickCount=1)
        self.settle()

    def double_click(self, selector, x=0.5, y=0.4):
        at = self.place(selector, x, y)
        for count in (1, 2):
            for kind in ("mousePressed", "mouseReleased"):
                self.mouse(kind, *at, button="left", buttons=1, clickCount=count)
        self.settle()

    def choose(self, selector, value):
        self.run(f"(() => {{ const e = document.querySelector({json.dumps(selector)}); e.value = {json.dumps(str(value))}; "
                 "e.dispatchEvent(new Event('change')); })()")
        self.settle()

    def write(self, selector, text):
        self.run(f"document.querySelector({json.dumps(selector)}).focus(), document.querySelector({json.dumps(selector)}).select()")
        if text:
            self.call("Input.insertText", text=text)
        else:
            self.call("Input.dispatchKeyEvent", type="keyDown", key="Backspace", code="Backspace", windowsVirtualKeyCode=8)
        self.settle()

    def text(self, selector):
        return self.run(f"document.querySelector({json.dumps(selector)}).textContent")

    def data(self, selector):
        """The data attributes of an element, numbers as numbers."""
        found = self.run(f"({{...document.querySelector({json.dumps(selector)}).dataset}})")
        return {name: float(value) for name, value in found.items()}

    def picture(self, path):
        import base64
        with open(path, "wb") as file:
            file.write(base64.b64decode(self.call("Page.captureScreenshot", captureBeyondViewport=True)["data"]))

    def seconds(self, action):
        begin = time.monotonic()
        action()
        return time.monotonic() - begin
